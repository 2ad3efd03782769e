"""Everything that can go wrong, as sentences for the person who called.

::

    LayupError
    ├── InputError (ValueError)         what was given cannot be used
    │   ├── UnknownNameError            no such backbone, layer, option …
    │   ├── BadImageError               a file or array that is not a usable image
    │   └── ForgetError                 asked to forget what was never learned
    ├── ConsentError                    a file asks for a backbone that nobody has allowed
    ├── DivergedError                   training went wrong
    ├── MismatchError                   two things that do not belong together
    ├── MissingPackageError             an optional package is not installed
    ├── NotEnoughMemoryError            what was asked would not fit into memory
    ├── TaskOverError                   images of a task were read after it was over
    └── StorageError                    a file that cannot be read or written
        ├── DamagedFileError            the file is not what it says it is
        └── NewerFormatError            the file was written by a later layup

Each message says what was wrong, with the value; what is allowed; what to do.
The command line prints the message and exits with 1; it never shows a traceback. What option of a command an
error is about the message does not say, as programs have none: `about` does, and the command adds the option.
"""

from __future__ import annotations


class LayupError(Exception):
    """The root of every error that layup raises on purpose.

    about: the name of the argument that has to be changed, where there is one.

    >>> LayupError("Training went wrong. Use a smaller learning rate.", about="learning_rate").about
    'learning_rate'
    """

    def __init__(self, *message: str, about: str | None = None) -> None:
        super().__init__(*message)
        self.about = about


class InputError(LayupError, ValueError):
    """What was given cannot be used."""


class UnknownNameError(InputError):
    """No backbone, layer or option has this name."""


class BadImageError(InputError):
    """A file or an array that is not a usable image."""


class ForgetError(InputError):
    """Asked to forget what was never learned."""


class ConsentError(LayupError):
    """A model file asks for a network from elsewhere, which the person has to allow."""


class DivergedError(LayupError):
    """Training gave something that is not a number."""


class MismatchError(LayupError):
    """Two things that do not belong together, such as models of two backbones."""


class MissingPackageError(LayupError):
    """An optional package is not installed."""


class NotEnoughMemoryError(LayupError):
    """What was asked would not fit into memory, so that it was not begun."""


class TaskOverError(LayupError):
    """Images of a task were read after it was over: a learner sees each task once."""


class StorageError(LayupError):
    """A file that cannot be read or written."""


class DamagedFileError(StorageError):
    """The file is not what it says it is."""


class NewerFormatError(StorageError):
    """The file was written by a later version of layup."""
