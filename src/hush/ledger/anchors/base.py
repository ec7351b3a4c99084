"""The anchor: the end of the chain, kept where the ledger is not.

A chain shows that entries were changed, but not that the last ones are missing: a copy from yesterday is a perfect
chain. So the last entry is also kept elsewhere, whole, with the hash of the one before it, and a ledger that does not
end there is refused.

**The order of writes.** To append entry n+1, under the ledger's lock:

1. read what others appended; compare the ledger with the anchor;
2. hand entry n+1 to the anchor;
3. commit it to the ledger;
4. when both are on the disk, and not before, something is granted.

For an act of the owner 3 waits for 2. For a charge the two may be forced to the disk at the same time.

**Every crash point.** *Neither is on the disk*: nothing happened, nothing was granted. *Only the anchor has entry
n+1*: the ledger ends at n, and this looks the same whether a crash came first or somebody took one entry away. It
need not be told apart: the anchor has the entry, and the next opener appends it. The charge stands, at worst without
an answer. (An outcome is not appended again. It moves no budget; its reservation is shown as pending.) *Only the
ledger has entry n+1*, which takes a loss of power between two disks: it is accepted if it is a charge that follows by
the rules, for that can only spend. *Both have it*: a ledger without it is put right, or, if more than one entry is
missing, refused. So no crash makes a ledger unusable, and no entry for which something was granted gets lost, or is
lost unnoticed.

**What an anchor cannot do.** Whoever can write the ledger *and* its anchor can forge both. Put the anchor where the
people and programs that can replace the ledger cannot write. Somebody who can write the ledger only can add charges,
one between any two of ours, and so waste budget or store a false answer to a reservation that is still open; they
cannot remove or change an entry, nor raise a budget.

A *witness* is a weaker anchor: it knows what one host has seen of a ledger that others write too, and accepts every
continuation of that. It is written after the commit, and before anything is granted.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from hush.core.values import dataclass
from hush.ledger.entries import Entry, Head, follow
from hush.ledger.errors import LedgerDamagedError


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """What an anchor holds."""

    ledger: str
    """The ledger's id."""
    before: Head
    """The end of the ledger before the entry."""
    entry: Entry
    """The last entry, or the one that is about to become so."""
    place: str = ""
    """Where the ledger lay when the entry was made; nothing in a mark of hush 0.1.0."""

    def to_json(self) -> dict[str, Any]:
        """Return the mark as plain JSON values."""
        content = {"ledger": self.ledger, "before": self.before.hash.hex(), "entry": self.entry.to_json()}
        return content | ({"place": self.place} if self.place else {})

    @classmethod
    def from_json(cls, content: Any, place: str) -> Mark:
        """Return the mark that was written, or refuse."""
        try:
            entry = Entry.from_json(content["entry"])
            before = Head(number=entry.number - 1, hash=bytes.fromhex(content["before"]))
            follow(before, entry.row)
            ledger, place = content["ledger"].strip(), content.get("place", "").strip()
        except (KeyError, TypeError, ValueError, AttributeError, LedgerDamagedError) as error:
            raise unreadable(place) from error
        return cls(ledger=ledger, before=before, entry=entry, place=place)


def unreadable(place: str) -> LedgerDamagedError:
    """Return the error about an anchor that makes no sense."""
    return LedgerDamagedError(
        f"The anchor at {place} cannot be read, so nobody knows whether the ledger is complete. No budget is given "
        "out. If the ledger is certainly the newest, the owner may set the anchor anew: "
        "hush ledger restore --reason TEXT --lost none."
    )


class Anchor(ABC):
    """A place for one mark."""

    place: str
    """How the anchor is named in messages and recorded in the ledger; without any password."""
    exclusive: bool = True
    """Whether every writer of the ledger writes this anchor; a witness is not exclusive."""

    @abstractmethod
    def read(self) -> Mark | None:
        """Return the mark, or None where none was ever written."""

    @abstractmethod
    def write(self, mark: Mark) -> None:
        """Replace the mark, durably and at once."""

    def begin(self, mark: Mark) -> Callable[[], None]:
        """Replace the mark, and return what waits until it is on the disk."""
        self.write(mark)
        return _nothing

    def reset(self, mark: Mark) -> None:
        """Write a mark over whatever is there, readable or not: the owner's act of restoring."""
        self.write(mark)

    def close(self) -> None:  # noqa: B027 - most anchors hold nothing open
        """Let go of what the anchor holds open; never fails."""


def _nothing() -> None:
    pass
