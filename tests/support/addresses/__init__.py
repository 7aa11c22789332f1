"""The table of every address there is, with the outcome for everybody who could ask for it.

An address stands in the module that is named like its first part, or in `site` where there is none.
"""

from typing import Final

from tests.support.addresses import accounts, review, sessions, settings, site

TABLE: Final = (*site.LINES, *accounts.LINES, *review.LINES, *sessions.LINES, *settings.LINES)
#: Addresses that name an object, with one of another workspace: nothing for a member, and the same for who is none.
FOREIGN: Final = (*review.FOREIGN, *sessions.FOREIGN, *site.FOREIGN, *settings.FOREIGN)
