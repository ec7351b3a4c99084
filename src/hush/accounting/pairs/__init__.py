"""Dominating pairs: the two output laws that a mechanism's worst neighbours can be reduced to, and their cumulants.

A pair (P, Q) dominates a mechanism when every hockey-stick divergence between neighbouring outputs is at most that of
(P, Q). Everything an accountant needs of it is M(z) = ∫ P^{1+z} Q^{-z} (Zhu, Dong, Wang 2022): K = ln M adds under
composition, K(z)/z is the Rényi divergence of order 1 + z, and on a vertical line K gives δ(ε) exactly.
"""
