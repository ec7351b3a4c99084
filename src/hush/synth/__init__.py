"""Whole releases: all marginals at once, synthetic rows, streams and ranges, on integer-coded tables.

All of them go one way: plan without data, add exact discrete noise to exact integers, keep what was measured, and make
everything else of that, free of charge.
"""

from hush.synth.domain import CodedTable, Domain
from hush.synth.marginals import CountEstimate as Estimate
from hush.synth.marginals import MarginalPlan, Marginals, MarginalTable, all_marginals, plan_marginals
from hush.synth.measurements import Price
from hush.synth.ranges import RangePlan, Ranges, plan_ranges
from hush.synth.streams import RunningTotals as Stream
from hush.synth.streams import StreamPlan, plan_stream
from hush.synth.synthesis import (
    Certificate,
    CountAnswer,
    Quality,
    Settings,
    SynthesisPlan,
    Synthetic,
    plan_synthesis,
    synthesise,
)

__all__ = [
    "Certificate",
    "CodedTable",
    "CountAnswer",
    "Domain",
    "Estimate",
    "MarginalPlan",
    "MarginalTable",
    "Marginals",
    "Price",
    "Quality",
    "RangePlan",
    "Ranges",
    "Settings",
    "Stream",
    "StreamPlan",
    "SynthesisPlan",
    "Synthetic",
    "all_marginals",
    "plan_marginals",
    "plan_ranges",
    "plan_stream",
    "plan_synthesis",
    "synthesise",
]
