"""Table of the counters of failed sign-ins and of other limited attempts."""

from django.db import models


class ThrottleEntry(models.Model):
    """Cached counter of attempts, as JSON; read and written by `harness_site.accounts.throttle_cache`."""

    cache_key = models.CharField(max_length=255, primary_key=True)
    value = models.TextField()
    expires = models.DateTimeField(db_index=True)

    def __str__(self) -> str:
        return self.cache_key
