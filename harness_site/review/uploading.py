"""What is uploaded as evidence never takes more room than it may, not even on the way in."""

from typing import Any, Final

from django.conf import settings
from django.core.files.uploadhandler import FileUploadHandler, SkipFile
from django.http import HttpRequest

#: Where a request remembers that a file in it was too large to be taken.
_REFUSED: Final = "harness.file_too_large"


class Limit(FileUploadHandler):
    """Stands before the handlers that keep a file, and lets nothing through once it is too large."""

    def new_file(self, *args: Any, **kwargs: Any) -> None:
        super().new_file(*args, **kwargs)
        self._size = 0

    def receive_data_chunk(self, raw_data: bytes, start: int) -> bytes:
        self._size += len(raw_data)
        if self._size > settings.EVIDENCE_BYTES:
            if self.request is not None:
                self.request.META[_REFUSED] = True
            raise SkipFile
        return raw_data

    def file_complete(self, file_size: int) -> None:
        """What came through is kept by the next handler."""


def too_large(request: HttpRequest) -> bool:
    """Whether a file was left out of this request."""
    return _REFUSED in request.META
