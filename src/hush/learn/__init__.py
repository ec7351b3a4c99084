"""Private models: regression and classification under the same budget and exactness as questions.

A model needs a public schema, ``{column: (lower, upper) or [values]}``, and a budget. Neighbours differ by adding or
removing one row. Every sum over rows is a sum of integers, every noise is exact, and no error, warning or attribute
depends on rows but through the release.

>>> import numpy as np
>>> model = LogisticRegression({"age": (0, 99), "sex": ["f", "m"]}, epsilon="1", delta="1e-6")
>>> model.event
ComposedEvent(...)
"""

from hush.learn.bayes import NaiveBayes
from hush.learn.kmeans import KMeans
from hush.learn.linear import Coefficient, LeastSquares, LinearModel, Moments, moments
from hush.learn.model import Model, load, model_from_json
from hush.learn.pca import PCA
from hush.learn.regression import LogisticRegression, Regression, Shape
from hush.learn.select import SelectedModel as Selection
from hush.learn.select import select, selection_event

__all__ = [
    "PCA",
    "Coefficient",
    "KMeans",
    "LeastSquares",
    "LinearModel",
    "LogisticRegression",
    "Model",
    "Moments",
    "NaiveBayes",
    "Regression",
    "Selection",
    "Shape",
    "load",
    "model_from_json",
    "moments",
    "select",
    "selection_event",
]
