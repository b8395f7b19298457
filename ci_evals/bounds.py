"""Types of values that are kept within bounds when they are decoded."""

from typing import Annotated

from msgspec import Meta

Fraction = Annotated[float, Meta(ge=0, le=1)]
Filled = Annotated[str, Meta(min_length=1)]
AtLeastOne = Annotated[float, Meta(ge=1)]
Positive = Annotated[float, Meta(gt=0)]
