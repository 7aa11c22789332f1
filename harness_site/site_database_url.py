"""URL of this site's database for agents."""

from urllib.parse import quote

from django.db import connection


def build_database_url(user: str, password: str) -> str:
    """Build the URL of this site's PostgreSQL database for a login. The site's own login is not in it."""
    database = connection.settings_dict
    host = quote(str(database["HOST"] or "localhost"), safe="")
    port = f":{database['PORT']}" if database["PORT"] else ""
    return f"postgresql://{quote(user, safe='')}:{quote(password, safe='')}@{host}{port}/{quote(str(database['NAME']))}"
