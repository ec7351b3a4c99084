"""Planning: from a question and a policy to statistics, bounds, noise and a price. No data, no engine."""

from hush.query.plan.choices import Pick
from hush.query.plan.errors import UnplannableError
from hush.query.plan.plan import Extraction, Item, Noise, Plan, Selection
from hush.query.plan.priced import plan

__all__ = ["Extraction", "Item", "Noise", "Pick", "Plan", "Selection", "UnplannableError", "plan"]
