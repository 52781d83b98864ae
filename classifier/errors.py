"""What can go wrong in the classifier.

* ClassifierError
  - ModelFileInvalid   the weights are missing, damaged, or of another format
  - DatasetInvalid     training data is missing or lacks a column
  - AdaptationRefused  pairs of one's own say too little to leave the prior
  - EncoderUnavailable a sentence encoder cannot be used, or is not the one that a version was fitted with
  - MissingDependency  training or an encoder needs a package that is not installed
"""


class ClassifierError(Exception):
    """Base of all errors of this package."""


class ModelFileInvalid(ClassifierError):
    """The weights are missing, damaged, or of another format."""


class DatasetInvalid(ClassifierError):
    """Training data is missing or lacks a column."""


class AdaptationRefused(ClassifierError):
    """Pairs of one's own say too little to leave the prior; the message says what is missing."""


class MissingDependency(ClassifierError):
    """Training or an encoder needs a package that is not installed."""


class EncoderUnavailable(ClassifierError):
    """A sentence encoder cannot be used, or is not the one that a version was fitted with."""
