"""Table of every URL of the site, with the expected status for each kind of user.

A URL is listed in the module named like its first part, or in `site` if there is none.
"""

from typing import Final

from tests.support.url_table import accounts, review, sessions, settings, site

TABLE: Final = (*site.LINES, *accounts.LINES, *review.LINES, *sessions.LINES, *settings.LINES)
#: URLs with an object of another workspace: 404 for a member, and the same for a stranger.
FOREIGN: Final = (*review.FOREIGN, *sessions.FOREIGN, *site.FOREIGN, *settings.FOREIGN)
