"""Where sign-ins are kept: in the database, as Django does it, read with one prepared statement."""

from django.contrib.sessions.backends import db
from django.contrib.sessions.models import Session
from django.db.models import QuerySet
from django.utils import timezone

from checkpoints.prepared import Prepared


@Prepared
def _valid(key: str, now: object) -> QuerySet[Session]:
    return Session.objects.filter(session_key=key, expire_date__gt=now)


class SessionStore(db.SessionStore):
    def _get_session_from_db(self) -> Session | None:
        found = _valid.first(str(self.session_key), timezone.now())
        if found is None:
            self._session_key = None
        return found
