from harness_site.accounts.models.invitation import Invitation
from harness_site.accounts.models.masking import MaskingSettings
from harness_site.accounts.models.membership import RANKS, Membership
from harness_site.accounts.models.throttle import ThrottleEntry
from harness_site.accounts.models.token import ApiToken, TokenRole

__all__ = ["RANKS", "ApiToken", "Invitation", "MaskingSettings", "Membership", "ThrottleEntry", "TokenRole"]
