"""Signing in with an OpenID Connect provider, where the environment names one."""

from typing import Any, Final
from urllib.parse import urlsplit

from django.core.exceptions import ImproperlyConfigured

from harness_site import env

#: Stands in the address that the provider sends people back to: /accounts/oidc/sso/login/callback/
PROVIDER_ID: Final = "sso"


def apps() -> list[dict[str, Any]]:
    """The provider of HARNESS_OIDC_URL, as django-allauth wants it; none where there is no such variable."""
    address = env.text("HARNESS_OIDC_URL").strip()
    if not address:
        return []
    client = env.text("HARNESS_OIDC_CLIENT_ID").strip()
    if not client:
        raise ImproperlyConfigured("HARNESS_OIDC_URL is set: set HARNESS_OIDC_CLIENT_ID as well.")
    return [
        {
            "provider_id": PROVIDER_ID,
            "name": env.text("HARNESS_OIDC_NAME", "single sign-on"),
            "client_id": client,
            "secret": env.text("HARNESS_OIDC_CLIENT_SECRET"),
            "settings": {"server_url": address, "oauth_pkce_enabled": True},
        }
    ]


def origins() -> list[str]:
    """Where the sign-in form may lead to, besides this site: the provider's own origin and those it uses beside it."""
    address = env.text("HARNESS_OIDC_URL").strip()
    parts = urlsplit(address)
    own = [f"{parts.scheme}://{parts.netloc}"] if address else []
    return [*own, *env.words("HARNESS_OIDC_ORIGINS")]
