"""Login of test clients without a password."""

import time
from datetime import timedelta

from allauth.account.internal.flows.login import record_authentication
from django.contrib.auth.models import User
from django.http import HttpRequest
from django.test import Client


def sign_in(client: Client, user: User, *, ago: timedelta = timedelta()) -> Client:
    """Log in as if `user` had given their password `ago`. Returns the client."""
    client.force_login(user)
    request = HttpRequest()
    request.session = client.session
    record_authentication(request, user, "password", username=user.get_username())
    for record in request.session["account_authentication_methods"]:
        record["at"] = time.time() - ago.total_seconds()
    request.session.save()
    return client


def record_reauthentication(client: Client) -> Client:
    """Record a reauthentication of the signed-in user just now. Returns the client."""
    session = client.session
    record = {"method": "password", "at": time.time(), "reauthenticated": True}
    session["account_authentication_methods"] = [*session.get("account_authentication_methods", []), record]
    session["account_authentication_methods_user"] = session["_auth_user_id"]
    session.save()
    return client
