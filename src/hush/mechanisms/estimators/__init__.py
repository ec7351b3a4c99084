"""Estimators a person would call: a column in, an `Estimate` out (`hush.mechanisms` offers their names)."""
