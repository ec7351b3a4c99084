"""Orchestration: the owner's policy, and the way of one question from text to answer."""
