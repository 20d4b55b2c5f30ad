"""The checks of the source gate, one model each, told apart by `check`."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from shipper.config.check_base import Check, ContentCheck, RateCheck, RecordCheck
from shipper.config.content_checks import (
    AllowedCheck,
    ConditionCheck,
    InWindowCheck,
    JsonCheck,
    LineLengthCheck,
    MatchesCheck,
    NotNullCheck,
    RouteRateCheck,
    RowsCheck,
    SchemaCheck,
    Share,
    UniqueCheck,
)
from shipper.config.listing_checks import (
    DuplicateFilesCheck,
    FilesCheck,
    FilesPerCheck,
    FreshnessCheck,
    ListingCheck,
    NoBomCheck,
    SizeVsHistoryCheck,
    TotalBytesCheck,
)

__all__ = [
    "AllowedCheck",
    "Check",
    "ConditionCheck",
    "ContentCheck",
    "DuplicateFilesCheck",
    "FilesCheck",
    "FilesPerCheck",
    "FreshnessCheck",
    "InWindowCheck",
    "JsonCheck",
    "LineLengthCheck",
    "ListingCheck",
    "MatchesCheck",
    "NoBomCheck",
    "NotNullCheck",
    "RateCheck",
    "RecordCheck",
    "RouteRateCheck",
    "RowsCheck",
    "SchemaCheck",
    "Share",
    "SizeVsHistoryCheck",
    "SourceCheck",
    "TotalBytesCheck",
    "UniqueCheck",
]


SourceCheck = Annotated[
    ListingCheck
    | RowsCheck
    | NotNullCheck
    | MatchesCheck
    | JsonCheck
    | AllowedCheck
    | InWindowCheck
    | LineLengthCheck
    | RouteRateCheck
    | SchemaCheck
    | ConditionCheck
    | UniqueCheck,
    Field(discriminator="check"),
]
