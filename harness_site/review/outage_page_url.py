"""URLs of the pages of outages, which name a tool, the type of its errors if it raised any, and two times."""

from dataclasses import dataclass
from datetime import datetime
from re import ASCII, fullmatch
from urllib.parse import urlencode

from django.core.exceptions import BadRequest
from django.http import QueryDict
from django.urls import reverse
from django.utils.translation import gettext as _

from harness_site.core import formatting
from harness_site.core.datetime_parameters import parse_utc_datetime_or_none
from harness_site.core.masking.encrypted_names_in_urls import decrypt_name_if_encrypted, encrypt_name_if_masked
from harness_site.review.selectors.outage_groups import Outage


@dataclass(frozen=True, slots=True)
class OutageWindow:
    """Outage in a URL: its tool and cause, two times in whole seconds (inclusive), on later pages the last call before.

    `error_type` is empty if the runs of the calls were lost.
    """

    tool: str
    error_type: str
    first: datetime
    last: datetime
    after: int | None = None

    @property
    def first_page_url(self) -> str:
        """URL of the first page."""
        query = {
            "tool": encrypt_name_if_masked(self.tool),
            **({"error": encrypt_name_if_masked(self.error_type)} if self.error_type else {}),
            "from": formatting.format_iso_time(self.first),
            "to": formatting.format_iso_time(self.last),
        }
        return f"{reverse('harness_review:outage')}?{urlencode(query)}"

    @property
    def url(self) -> str:
        return self.first_page_url if self.after is None else self.get_url_after(self.after)

    def get_url_after(self, call: int) -> str:
        """Return the URL of the page that begins after this call."""
        return f"{self.first_page_url}&after={call}"


def build_outage_page_url(outage: Outage) -> str:
    """Build the URL of the page of an outage."""
    first = outage.first.replace(microsecond=0)
    return OutageWindow(outage.tool, outage.error_type, first, outage.last.replace(microsecond=0)).url


def parse_outage_window(query: QueryDict) -> OutageWindow:
    """Parse the parameters of the URL of an outage. Raises `BadRequest`."""
    first, last = (parse_utc_datetime_or_none(query.get(name, "")) for name in ("from", "to"))
    tool, error_type, after = (query.get(name, "") for name in ("tool", "error", "after"))
    if (
        first is None
        or last is None
        or first > last
        or "\0" in tool + error_type
        or not fullmatch(r"\d{0,18}", after, ASCII)
    ):
        raise BadRequest(_("The address does not name an outage: it needs a tool, and two times with a time zone."))
    tool, error_type = decrypt_name_if_encrypted(tool), decrypt_name_if_encrypted(error_type)
    return OutageWindow(tool, error_type, first, last, int(after) if after else None)
