r"""The privacy profile: δ as a function of ε, with certified ends, of a composition of dominating pairs.

A composition (:class:`hush.accounting.description.Description`) is asked in one direction or in both
(:class:`.direction.Direction`). What is known of it is its cumulant K, the sum of its pairs' (:mod:`.cumulant`); a
method turns K, and what the pairs can do besides, into certified ends of ln δ(ε), and :func:`.method.invert` turns
those into ends of ε at a given δ. Methods are tried in this order, from the cheapest, and the first whose ends are
within 1e-10 of each other is taken; else the best upper and the best lower end of all, each certified on its own.

============================== =========================================================================================
method                         is used for
============================== =========================================================================================
:mod:`.closed_forms`           Gaussians alone, and one step of any pair with a quick profile: ball arithmetic
:mod:`.contour`                any composition whose moment falls fast enough along a vertical line: the trapezoid rule,
                               exact but for its aliases; on a period where all losses share a lattice
:mod:`.closed_forms`, residues few Laplace, response, bounded-range and discrete Laplace steps, in ball arithmetic.
                               Before the contour where the steps are 24 at most, after it else
:mod:`.tail_bounds`            every composition: Chernoff far out, near certainty, and the atom at the largest loss
:mod:`.convolution`            few steps of any kind, sampled ones and atoms above all: FFT on a grid; a last resort
:mod:`.contour`, smoothed      a moment that does not fall: with one weak Gaussian step more; a last resort
============================== =========================================================================================

The choice of c for the contour and the convolution is :mod:`.cumulant`'s; :mod:`.lattices` has the laws of losses that
are atoms. Two more answer for what has no dominating pair, or a better theorem than its pair: :mod:`.tail_bounds` (zCDP
and Rényi curves) and :mod:`.closed_forms` (equal mechanisms of bounded range, fixed in advance).

>>> from fractions import Fraction
>>> from hush.accounting.description import Description
>>> from hush.accounting.pairs.hyperbolic import LaplacePair
>>> from hush.accounting.profile.direction import Direction
>>> steps = Direction(Description.of(LaplacePair(epsilon=Fraction(1, 10))) * 50, reverse=False)
>>> ends = steps.log_delta(2.0)
>>> ends.lower <= ends.upper <= ends.lower + 1e-9
True
"""
