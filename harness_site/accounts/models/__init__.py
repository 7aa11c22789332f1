from harness_site.accounts.models.api_token import ApiToken, TokenRole
from harness_site.accounts.models.invitation import Invitation
from harness_site.accounts.models.membership import RANKS, Membership
from harness_site.accounts.models.second_factor_requirement import FactorScope, SecondFactorRequirement
from harness_site.accounts.models.throttle import ThrottleEntry
from harness_site.accounts.models.workspace_masking_settings import MaskingSettings

__all__ = [
    "RANKS",
    "ApiToken",
    "FactorScope",
    "Invitation",
    "MaskingSettings",
    "Membership",
    "SecondFactorRequirement",
    "ThrottleEntry",
    "TokenRole",
]
