"""Google Cloud's Vertex AI: Gemini with `generateContent`, Claude with `rawPredict`."""

import os
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

from ci_evals.errors import ConfigError, Problem
from ci_evals.model.fields import NonEmpty
from ci_evals.providers.anthropic import DEFAULT_MAX_TOKENS, Messages
from ci_evals.providers.base import Provider, Resources
from ci_evals.providers.gemini import Gemini
from ci_evals.providers.http_messages import HttpCredentials, authorization_problems
from ci_evals.providers.model_api import ModelOptions

_ANTHROPIC_VERSION = "vertex-2023-10-16"


@dataclass(frozen=True, slots=True, kw_only=True)
class Vertex(Gemini):
    """A model of Vertex AI: Gemini, a tuned Gemini, or Claude.

    Args:
        project: the Google Cloud project; the environment's when left out.
        location: the region or multi-region of the calls; the environment's, or `global`, when left
            out.
    """

    kind: ClassVar[str] = "vertex"
    default_key_variable: ClassVar[str | None] = None
    vendor_host: ClassVar[str] = "googleapis.com"
    reserved: ClassVar[tuple[str, ...]] = ("model", "contents", "messages", "stream")

    base_url: str = ""
    project: NonEmpty | None = None
    location: NonEmpty | None = None

    @property
    def address(self) -> str:
        location = self._location
        if self.base_url:
            return self.base_url
        if location == "global":
            return "https://aiplatform.googleapis.com"
        if location in ("us", "eu"):
            return f"https://aiplatform.{location}.rep.googleapis.com"
        return f"https://{location}-aiplatform.googleapis.com"

    @property
    def _location(self) -> str:
        return self.location or os.environ.get("GOOGLE_CLOUD_LOCATION") or "global"

    @property
    def _is_claude(self) -> bool:
        return self.model.startswith("claude")

    def problems(self, folder: Path) -> list[str]:
        problems = []
        is_installed = _is_installed("google.auth") and _is_installed("requests")
        if self.wants_credentials and not is_installed:
            problems.append("needs google-auth: `pip install 'ci-evals[vertex]'`")
        if self.wants_credentials:
            why = "Google's credentials use this header; remove it, or set `api_key` or `token`"
            problems += authorization_problems(self.headers, f"{why} instead")
        if self._is_claude:
            return problems + ModelOptions.problems(self, folder)
        return problems + Gemini.problems(self, folder)

    def credentials(self, resources: Resources) -> HttpCredentials | None:
        if self.wants_credentials:
            from ci_evals.plugins.clouds.google import google_credentials

            return google_credentials(resources)
        return ModelOptions.credentials(self, resources)

    def open(self, resources: Resources) -> Provider:
        if self._is_claude:
            return self._open_claude(resources)
        return self.open_at(resources, f"v1/{self._model_path('google')}")

    def _open_claude(self, resources: Resources) -> Provider:
        method = "rawPredict"
        fields: dict[str, Any] = {
            "anthropic_version": _ANTHROPIC_VERSION,
            "max_tokens": DEFAULT_MAX_TOKENS,
        }
        if self.stream:
            method = "streamRawPredict"
            fields["stream"] = True
        fields |= self.params
        path = f"v1/{self._model_path('anthropic')}:{method}"
        return Messages(self.endpoint(resources, path, fields))

    def _model_path(self, publisher: str) -> str:
        """Return the resource name of the model.

        Raises:
            ConfigError: no project is set.
        """
        if self.model.startswith("projects/"):
            return self.model
        model = self.model
        if "/" not in model:
            model = f"publishers/{publisher}/models/{model}"
        project = self.project or os.environ.get("GOOGLE_CLOUD_PROJECT")
        if project:
            return f"projects/{project}/locations/{self._location}/{model}"
        if self.api_key is not None:  # the key identifies the project
            return model
        text = "project: name the Google Cloud project, or set GOOGLE_CLOUD_PROJECT"
        raise ConfigError([Problem("", None, "", text)])


def _is_installed(module: str) -> bool:
    """Return True if a module exists, importing only the packages around it."""
    package = module.rpartition(".")[0]
    if package and find_spec(package) is None:
        return False
    return find_spec(module) is not None
