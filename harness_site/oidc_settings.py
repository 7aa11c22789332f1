"""OpenID Connect provider for sign-in, configured by environment variables."""

from typing import Any, Final
from urllib.parse import urlsplit

from django.core.exceptions import ImproperlyConfigured

from harness_site import env

#: Part of the callback URL of the provider: /accounts/oidc/sso/login/callback/
PROVIDER_ID: Final = "sso"


def build_oidc_provider_settings() -> list[dict[str, Any]]:
    """Build the provider settings of HARNESS_OIDC_URL for django-allauth; empty without that variable."""
    address = env.read_text_setting("HARNESS_OIDC_URL").strip()
    if not address:
        return []
    client = env.read_text_setting("HARNESS_OIDC_CLIENT_ID").strip()
    if not client:
        raise ImproperlyConfigured("HARNESS_OIDC_URL is set: set HARNESS_OIDC_CLIENT_ID as well.")
    return [
        {
            "provider_id": PROVIDER_ID,
            "name": env.read_text_setting("HARNESS_OIDC_NAME", "single sign-on"),
            "client_id": client,
            "secret": env.read_text_setting("HARNESS_OIDC_CLIENT_SECRET"),
            "settings": {"server_url": address, "oauth_pkce_enabled": True},
        }
    ]


def list_oidc_provider_origins() -> list[str]:
    """List the origins that the login form may submit to besides this site: those of the provider."""
    address = env.read_text_setting("HARNESS_OIDC_URL").strip()
    parts = urlsplit(address)
    own_origins = [f"{parts.scheme}://{parts.netloc}"] if address else []
    return [*own_origins, *env.read_list_setting("HARNESS_OIDC_ORIGINS")]
