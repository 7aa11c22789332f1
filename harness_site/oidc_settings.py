"""OpenID Connect provider for sign-in, configured by environment variables."""

from typing import Any, Final
from urllib.parse import urlsplit

from django.core.exceptions import ImproperlyConfigured

from harness_site import env, read_host_and_origin_settings, site_address

#: Part of the callback URL of the provider: /accounts/oidc/sso/login/callback/
PROVIDER_ID: Final = "sso"


def build_oidc_provider_settings() -> list[dict[str, Any]]:
    """Build the provider settings of HARNESS_OIDC_URL for django-allauth; empty without that variable.

    Raises `ImproperlyConfigured` if one of the two that belong together is missing, or if the URL is none.
    """
    address = env.read_text_setting("HARNESS_OIDC_URL").strip()
    client = env.read_text_setting("HARNESS_OIDC_CLIENT_ID").strip()
    if not address:
        if client:
            raise ImproperlyConfigured("HARNESS_OIDC_CLIENT_ID is set: set HARNESS_OIDC_URL as well.")
        return []
    if not site_address.is_http_url(address):
        raise ImproperlyConfigured(
            f"HARNESS_OIDC_URL is {address!r}: give the address of the provider with its scheme, for example "
            "HARNESS_OIDC_URL=https://id.example.org"
        )
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


def list_oidc_provider_origins_or_collect_problem() -> list[str]:
    """List the origins that the login form may submit to besides this site: those of the provider.

    Origins that are none are kept for `env.raise_collected_problems`; `build_oidc_provider_settings` reports the URL.
    """
    address = env.read_text_or_collect_problem("HARNESS_OIDC_URL").strip()
    own_origins = []
    if site_address.is_http_url(address):
        parts = urlsplit(address)
        own_origins = [f"{parts.scheme}://{parts.netloc}"]
    return [*own_origins, *read_host_and_origin_settings.read_origins_or_collect_problem("HARNESS_OIDC_ORIGINS")]
