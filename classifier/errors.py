"""What can go wrong in the classifier.

* ClassifierError
  - ModelFileInvalid   the weights are missing, damaged, or of another format
  - DatasetInvalid     training data is missing or lacks a column
  - MissingDependency  training needs a package that is not installed
"""


class ClassifierError(Exception):
    """Base of all errors of this package."""


class ModelFileInvalid(ClassifierError):
    """The weights are missing, damaged, or of another format."""


class DatasetInvalid(ClassifierError):
    """Training data is missing or lacks a column."""


class MissingDependency(ClassifierError):
    """Training needs a package that is not installed."""
