"""Size limit of uploaded evidence, enforced while the upload is read."""

from typing import Any, Final

from django.conf import settings
from django.core.files.uploadhandler import FileUploadHandler, SkipFile
from django.http import HttpRequest

#: Key in `request.META` that marks an upload as too large.
_REFUSED: Final = "harness.file_too_large"


class UploadSizeLimit(FileUploadHandler):
    """Upload handler that discards a file as soon as it exceeds `EVIDENCE_BYTES`."""

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
        """Leave the complete file to the next handler."""


def was_oversized_upload_discarded(request: HttpRequest) -> bool:
    """Return True if a file of this request was discarded."""
    return _REFUSED in request.META
