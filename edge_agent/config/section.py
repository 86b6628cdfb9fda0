"""What every section of the configuration is made of: the base model and the kinds of values."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Optional, Union

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationInfo
from typing_extensions import Annotated, Literal

#: names of things that people choose: cameras, engine hosts, the agent itself
NAME_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}\Z")
MODEL_NAME_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}\Z")

#: what pathlib makes of the empty text
_NO_PATH = Path()


class Section(BaseModel):
    """A table of the configuration: frozen, complete, and with no key that nobody reads."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, allow_inf_nan=False)


def _folder_of(info: ValidationInfo, key: str) -> Optional[Path]:
    context = info.context if isinstance(info.context, dict) else {}
    folder = context.get(key)
    return folder if isinstance(folder, Path) else None


def _against_folder(path: Path, info: ValidationInfo) -> Path:
    folder = _folder_of(info, "folder")
    return Path(os.path.normpath(folder / path)) if folder is not None else path


def _optional_file(path: Optional[Path], info: ValidationInfo) -> Optional[Path]:
    return None if path is None or path == _NO_PATH else _against_folder(path, info)


def _secret_file(path: Optional[Path], info: ValidationInfo) -> Optional[Path]:
    credentials = _folder_of(info, "credentials")
    if path is not None and credentials is not None and len(path.parts) == 1 and (credentials / path).is_file():
        return credentials / path
    return _optional_file(path, info)


def _name(value: str) -> str:
    if NAME_PATTERN.match(value):
        return value
    raise ValueError("a name is 1 to 64 of A-Z a-z 0-9 _ - and begins with a letter or a digit")


def _model_name(value: str) -> str:
    if MODEL_NAME_PATTERN.match(value):
        return value
    raise ValueError("a model's name is 1 to 128 of A-Z a-z 0-9 . _ - and begins with a letter or a digit")


def _auto_or_positive(value: Union[str, int]) -> Union[str, int]:
    if value == "auto" or (isinstance(value, int) and not isinstance(value, bool) and value >= 1):
        return value
    raise ValueError('should be "auto" or a whole number from 1')


#: a path; a relative one counts from the configuration file's folder
FolderPath = Annotated[Path, AfterValidator(_against_folder)]
#: a file, or None for the empty text
OptionalFile = Annotated[Optional[Path], AfterValidator(_optional_file)]
#: a file with a secret, or None for the empty text; a bare name may be a systemd credential
SecretFile = Annotated[Optional[Path], AfterValidator(_secret_file)]
Name = Annotated[str, AfterValidator(_name)]
ModelName = Annotated[str, AfterValidator(_model_name)]
#: "auto", or a whole number from 1
AutoInt = Annotated[Union[Literal["auto"], int], AfterValidator(_auto_or_positive)]
Port = Annotated[int, Field(ge=0, le=65535)]
Seconds = Annotated[float, Field(ge=0, le=31_536_000)]
Count = Annotated[int, Field(ge=0)]
Int32 = Annotated[int, Field(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, Field(ge=-(2**63), le=2**63 - 1)]
Uint32 = Annotated[int, Field(ge=0, le=2**32 - 1)]
Uint64 = Annotated[int, Field(ge=0, le=2**64 - 1)]
Score = Annotated[float, Field(ge=0, le=1)]
