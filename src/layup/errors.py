"""All errors, with messages for the caller.

::

    LayupError
    ├── InputError (ValueError)         an input cannot be used
    │   ├── UnknownNameError            no such backbone, layer, option …
    │   ├── BadImageError               a file or array that is not a usable image
    │   └── ForgetError                 what is to be forgotten was never learned
    ├── ConsentError                    a file asks for a backbone that was not allowed
    ├── DivergedError                   training went wrong
    ├── MismatchError                   two things that do not belong together
    ├── MissingPackageError             an optional package is not installed
    ├── NotEnoughMemoryError            the work would not fit into memory
    ├── BusyError                       too much is waiting already: ask again later
    ├── ReadOnlyError                   a copy that only follows another model was to be changed
    ├── ServerError                     what a server of layup has refused, or does not answer
    ├── TaskOverError                   images of a task were read after it was over
    └── StorageError                    a file that cannot be read or written
        ├── DamagedFileError            the file is not what it says it is
        └── NewerFormatError            the file was written by a later layup

Each message says what was wrong, with the value; what is allowed; what to do.
The command line prints the message and exits with 1; it never shows a traceback. Messages do not name options
of the command line: `about` names the argument, and the command adds its option.
"""

from __future__ import annotations


class LayupError(Exception):
    """The root of every error that layup raises on purpose.

    about: the name of the argument that has to be changed, if any.

    >>> LayupError("Training went wrong. Use a smaller learning rate.", about="learning_rate").about
    'learning_rate'
    """

    def __init__(self, *message: str, about: str | None = None) -> None:
        super().__init__(*message)
        self.about = about


class InputError(LayupError, ValueError):
    """An input cannot be used."""


class UnknownNameError(InputError):
    """No backbone, layer or option has this name."""


class BadImageError(InputError):
    """A file or an array that is not a usable image."""


class ForgetError(InputError):
    """What is to be forgotten was never learned."""


class ConsentError(LayupError):
    """A model file asks for a network from elsewhere, which the user has to allow."""


class DivergedError(LayupError):
    """Training produced something that is not a finite number."""


class MismatchError(LayupError):
    """Two things that do not belong together, such as models of two backbones."""


class MissingPackageError(LayupError):
    """An optional package is not installed."""


class NotEnoughMemoryError(LayupError):
    """The work would not fit into memory, so it was not started."""


class BusyError(LayupError):
    """Too much is waiting already, or it takes too long.

    retry_after: seconds after which it is worth asking again.
    """

    def __init__(self, message: str, retry_after: float = 1.0) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class ReadOnlyError(LayupError):
    """A copy that only follows another model was to be changed."""


class ServerError(LayupError):
    """What a server of layup has refused, or does not answer.

    code, status: of the refusal; None if there was no answer.
    """

    def __init__(self, message: str, *, code: str | None = None, status: int | None = None) -> None:
        super().__init__(message)
        self.code, self.status = code, status


class TaskOverError(LayupError):
    """Images of a task were read after it was over: a learner sees each task once."""


class StorageError(LayupError):
    """A file that cannot be read or written."""


class DamagedFileError(StorageError):
    """The file is not what it says it is."""


class NewerFormatError(StorageError):
    """The file was written by a later version of layup."""


def first_line(error: BaseException) -> str:
    """The first line of another library's error, to quote in ours.

    >>> first_line(RuntimeError("No room\\nTraceback"))
    'No room.'
    """
    text = str(error).strip().partition("\n")[0] or type(error).__name__
    return text if text.endswith((".", "!", "?")) else text + "."
