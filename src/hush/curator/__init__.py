"""The curator: parse, plan, reserve, run, noise, answer."""
