"""Whether the Hugging Face hub can be reached: asked once, before something is downloaded from it.

Its own library tries again and again without a connection, for most of a minute, and says so on every try.
"""

from __future__ import annotations

from layup.errors import first_line

PATIENCE = 5.0
"""Seconds to wait for the hub to answer."""


def unreachable(repository: str, file: str) -> str | None:
    """Why a file of a repository cannot be asked for, in words; None if the hub answers, whatever it says.

    `repository` may end in "@" and a revision. Costs one small request, of at most `PATIENCE` seconds.
    """
    from huggingface_hub import get_hf_file_metadata, hf_hub_url  # here, because it is slow to import
    from huggingface_hub.errors import HfHubHTTPError

    repository, _, revision = repository.partition("@")
    try:
        get_hf_file_metadata(hf_hub_url(repository, file, revision=revision or None), timeout=PATIENCE)
    except HfHubHTTPError:
        return None  # it answers: what is wrong, such as another name of the file, the download will say
    except Exception as error:  # the hub's library has had several HTTP libraries, with errors of their own
        return first_line(error)
    return None
