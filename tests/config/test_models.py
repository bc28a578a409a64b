import pytest

from dirge_py.config.access import provider_access
from dirge_py.config.load import load
from dirge_py.config.models import (
    ModelSpec,
    main_model,
    offered_models,
    parse_model,
    resolve_model,
)
from dirge_py.config.sources import Overrides
from dirge_py.types.errors import ConfigError, NoProvider

KEY = {"OPENAI_API_KEY": "sk-1"}
TWO = """
provider = "work"
[providers.work]
type = "anthropic"
model = "big"
api_key_env = "WORK_KEY"
thinking = "low"
[providers.local]
type = "openai"
base_url = "http://localhost:1/v1"
models = ["qwen2.5:7b", "vendor/tiny"]
[roles]
summarize = "local"
"""


@pytest.fixture
def configured(tmp_path):
    def load_text(text="", environment=None, **overrides):
        (tmp_path / "config.toml").write_text(text)
        return load(Overrides(**overrides), environment or {}, tmp_path / "config.toml")

    return load_text


@pytest.mark.parametrize(
    ("spec", "parsed"),
    [
        ("work", ModelSpec(alias="work")),
        ("work:high", ModelSpec(alias="work", level="high")),
        ("work/m", ModelSpec(alias="work", id="m")),
        ("work/a/b:7b", ModelSpec(alias="work", id="a/b:7b")),
        ("work/a:7b:low", ModelSpec(alias="work", id="a:7b", level="low")),
        ("qwen2.5:7b", ModelSpec(id="qwen2.5:7b")),
        ("vendor/x", ModelSpec(id="vendor/x")),
        ("m:off", ModelSpec(id="m", level="off")),
        ("", ModelSpec()),
    ],
)
def test_model_spec_is_parsed_with_known_aliases(spec, parsed):
    assert parse_model(spec, ["work"]) == parsed


def test_api_key_variable_alone_selects_provider(configured):
    choice = main_model(configured("", KEY))

    assert choice.name == "openai-responses/gpt-5.5"
    assert choice.because == "openai-responses: OPENAI_API_KEY is set"


def test_openai_key_with_custom_base_url_selects_chat_completions(configured):
    elsewhere = "https://router.example/v1"
    named = main_model(configured("", {**KEY, "OPENAI_BASE_URL": elsewhere}, model="m"))
    chosen = main_model(configured("", KEY, base_url=elsewhere, model="m"))
    wanted = main_model(configured("", KEY, base_url=elsewhere, model="openai-responses/m"))

    assert (named.alias, named.because) == ("openai", "openai: OPENAI_API_KEY is set")
    assert (chosen.alias, wanted.alias) == ("openai", "openai-responses")


def test_first_provider_in_order_wins_if_several_keys_are_set(configured):
    environment = {"ANTHROPIC_API_KEY": "b", **KEY}

    assert main_model(configured("", environment)).alias == "openai-responses"
    del environment["OPENAI_API_KEY"]
    assert main_model(configured("", environment)).alias == "anthropic"


def test_environment_alone_selects_model_and_base_url(configured):
    config = configured(
        "", {**KEY, "DIRGE_MODEL": "openai/fake-model", "OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}
    )

    assert main_model(config).name == "openai/fake-model"
    access = provider_access(config, "openai", is_main=True)
    assert (access.base_url, access.api_key) == ("http://127.0.0.1:9/v1", "sk-1")


def test_local_base_url_variable_alone_selects_provider(configured):
    choice = main_model(configured("", {"OPENAI_BASE_URL": "http://localhost:1/v1"}))

    assert choice.because == "openai: OPENAI_BASE_URL is set"


def test_unsafe_base_url_variable_is_config_error(configured):
    config = configured("", {**KEY, "OPENAI_BASE_URL": "http://evil.example/v1"})

    assert main_model(config).alias == "openai"
    with pytest.raises(ConfigError, match="OPENAI_BASE_URL"):
        provider_access(config, "openai")


def test_config_file_selects_model_and_thinking_level(configured):
    choice = main_model(configured(TWO))

    assert (choice.name, choice.level) == ("work/big", "low")


def test_flag_overrides_environment_which_overrides_file(configured):
    environment = {"DIRGE_MODEL": "local/env"}

    assert main_model(configured(TWO, environment)).name == "local/env"
    assert main_model(configured(TWO, environment, model="work/flag")).name == "work/flag"
    assert main_model(configured(TWO, {"DIRGE_PROVIDER": "local"})).name == "local/qwen2.5:7b"


def test_provider_flag_ignores_model_of_other_provider(configured):
    config = configured(TWO, {"DIRGE_MODEL": "work/env"}, provider="local")

    assert main_model(config).name == "local/qwen2.5:7b"
    assert config.origin.chosen.source == "--provider"


def test_provider_flag_takes_model_id_literally(configured):
    config = configured(TWO, provider="local", model="openai/gpt")

    assert main_model(config).name == "local/openai/gpt"


def test_thinking_flag_overrides_level_in_model_name(configured):
    assert main_model(configured(TWO, model="big:high", thinking="off")).level == "off"
    assert main_model(configured(TWO, model="big:high")).level == "high"


def test_bare_model_id_resolves_to_provider_that_lists_model(configured):
    assert resolve_model(configured(TWO), "vendor/tiny").name == "local/vendor/tiny"
    assert resolve_model(configured(TWO), "new").name == "work/new"


@pytest.mark.parametrize("spec", ["opnai/gpt", "wrok/x"])
def test_unknown_alias_error_suggests_nearest(configured, spec):
    with pytest.raises(ConfigError) as caught:
        resolve_model(configured(TWO), spec)

    assert "Did you mean" in caught.value.hint


def test_unknown_provider_flag_is_config_error(configured):
    with pytest.raises(ConfigError, match="no provider `lokal`"):
        main_model(configured(TWO, provider="lokal"))


@pytest.mark.parametrize("alias", ["replay", "scripted"])
def test_replay_and_scripted_provider_error_shows_needed_settings(configured, alias):
    with pytest.raises(ConfigError) as caught:
        main_model(configured(TWO, provider=alias))

    assert f'`type = "{alias}"` and `script = "FILE"`' in caught.value.hint


def test_router_model_id_keeps_vendor_prefix(configured):
    text = (
        'provider = "router"\n[providers.router]\ntype = "openai"\napi_key_env = "R"\n'
        'base_url = "https://router.example/v1"\nmodel = "x"\n'
    )

    choice = resolve_model(configured(text, {"R": "k"}), "anthropic/claude")
    assert choice.name == "router/anthropic/claude"


def test_missing_api_key_error_names_its_variable(configured):
    with pytest.raises(NoProvider, match="WORK_KEY"):
        provider_access(configured(TWO), "work")
    with pytest.raises(NoProvider, match="ANTHROPIC_API_KEY"):
        provider_access(configured("", KEY), "anthropic")


def test_default_api_key_is_not_sent_to_custom_base_url(configured):
    text = '[providers.s]\ntype = "openai"\nbase_url = "https://stranger.example/v1"\nmodel = "m"\n'

    with pytest.raises(NoProvider, match="api_key_env"):
        provider_access(configured(text, KEY), "s")


def test_local_server_needs_no_key(configured):
    assert provider_access(configured(TWO), "local").api_key is None


def test_key_and_base_url_flags_apply_to_main_provider_only(configured):
    config = configured(TWO, api_key="flag", base_url="https://proxy.example")

    access = provider_access(config, "work", is_main=True)
    assert (access.api_key, access.base_url) == ("flag", "https://proxy.example")
    assert provider_access(config, "local").base_url == "http://localhost:1/v1"


def test_relative_key_file_is_next_to_config_file(configured, tmp_path):
    (tmp_path / "key").write_text("sk-file\n")
    text = '[providers.a]\ntype = "openai"\napi_key_file = "key"\n'

    assert provider_access(configured(text), "a").api_key == "sk-file"


def test_headers_are_expanded_from_environment(configured):
    text = '[providers.a]\ntype = "openai"\nheaders = { X = "t ${T}" }\n'

    access = provider_access(configured(text, {**KEY, "T": "1"}), "a")
    assert access.headers == {"X": "t 1"}
    assert "sk-1" not in repr(access)


def test_only_usable_models_are_offered(configured):
    assert offered_models(configured(TWO)) == ["local/qwen2.5:7b", "local/vendor/tiny"]
    assert "work/big" in offered_models(configured(TWO, {"WORK_KEY": "k"}))


def test_scripted_provider_needs_no_key(configured, tmp_path):
    config = configured('[providers.play]\ntype = "scripted"\nscript = "s.toml"\n')

    assert main_model(config).name == "play/script"
    assert provider_access(config, "play").script == str(tmp_path / "s.toml")


# -- providers of bare model ids

ROUTER = '[providers.router]\ntype = "openrouter"\nmodel = "a/b"\napi_key_env = "R"\n'
PROXY = (
    '[providers.proxy]\ntype = "openai"\nbase_url = "https://p.example/v1"\n'
    'model = "x"\nmodels = ["claude-sonnet-5"]\napi_key_env = "P"\n'
)
ANTHROPIC = {"ANTHROPIC_API_KEY": "a"}
BOTH = {**KEY, **ANTHROPIC}


@pytest.mark.parametrize(
    ("text", "environment", "spec", "name"),
    [
        # of the default provider, of no known provider, of another provider whose key is set
        ("", BOTH, "gpt-9", "openai-responses/gpt-9"),
        ("", BOTH, "o4-mini:high", "openai-responses/o4-mini"),
        ("", BOTH, "my-finetune", "openai-responses/my-finetune"),
        ("", BOTH, "claude-opus-5", "anthropic/claude-opus-5"),
        ("", BOTH, "Claude-opus-5", "anthropic/Claude-opus-5"),
        ("", {**BOTH, "ZHIPU_API_KEY": "z"}, "glm-5.2", "glm/glm-5.2"),
        ("", {**BOTH, "GOOGLE_API_KEY": "g"}, "gemini-3-pro", "gemini/gemini-3-pro"),
        # listed by an entry, or of the family of a listed model
        (PROXY, {**KEY, "P": "p"}, "claude-sonnet-5", "proxy/claude-sonnet-5"),
        ('provider = "openai"\n' + PROXY, {**KEY, "P": "p"}, "claude-9", "proxy/claude-9"),
        # services that resell models take any id
        (PROXY, {"P": "p"}, "gemini-3-pro", "proxy/gemini-3-pro"),
        (ROUTER, {"R": "r"}, "claude-opus-5", "router/claude-opus-5"),
        ("", {"GROQ_API_KEY": "g"}, "llama-4", "groq/llama-4"),
        ("", {**KEY, "OPENAI_BASE_URL": "https://r.example/v1"}, "claude-9", "openai/claude-9"),
        # ids with slashes
        ("", {"GROQ_API_KEY": "g"}, "groq/openai/gpt-oss-120b", "groq/openai/gpt-oss-120b"),
        ("", {"GROQ_API_KEY": "g"}, "openai/gpt-oss-120b", "groq/openai/gpt-oss-120b"),
        ("", {"GROQ_API_KEY": "g", **KEY}, "groq/openai/gpt-oss", "groq/openai/gpt-oss"),
        ("", {"OPENROUTER_API_KEY": "r"}, "deepseek/v4", "openrouter/deepseek/v4"),
        ("", {"OPENROUTER_API_KEY": "r"}, "openrouter/deepseek/v4", "openrouter/deepseek/v4"),
        ("", {"OPENROUTER_API_KEY": "r"}, "x-ai/grok-4", "openrouter/x-ai/grok-4"),
        ("", {"OPENCODE_API_KEY": "o"}, "opencode/a/b", "opencode/a/b"),
        (ROUTER, {"R": "r"}, "anthropic/claude-9", "router/anthropic/claude-9"),
        (ROUTER, {"R": "r", **ANTHROPIC}, "anthropic/claude-9", "anthropic/claude-9"),
    ],
)
def test_bare_model_id_resolves_to_provider_that_serves_model(
    configured, text, environment, spec, name
):
    config = configured(text, environment)
    assert resolve_model(config, spec).name == name
    assert main_model(configured(text, environment, model=spec)).name == name


@pytest.mark.parametrize(
    ("text", "environment", "spec", "error", "words"),
    [
        ("", KEY, "claude-opus-5", NoProvider, "a model of Anthropic, .*ANTHROPIC_API_KEY"),
        ("", {}, "claude-opus-5", NoProvider, "a model of Anthropic, .*ANTHROPIC_API_KEY"),
        ("", ANTHROPIC, "gpt-9", NoProvider, "a model of OpenAI, .*OPENAI_API_KEY"),
        ("", KEY, "glm-5.2", NoProvider, "GLM .*GLM_API_KEY"),
        ('[providers.w]\ntype = "anthropic"\nmodel = "x"\n', {}, "gpt-9", NoProvider, "OpenAI"),
        ("", {}, "my-finetune", NoProvider, "no provider is configured"),
        ("", KEY, "anthropc/x", ConfigError, "no provider `anthropc`"),
        ("", KEY, "vendor/x", ConfigError, "no provider `vendor`"),
    ],
)
def test_unservable_model_error_gives_reason(configured, text, environment, spec, error, words):
    with pytest.raises(error, match=words):
        resolve_model(configured(text, environment), spec)


def test_provider_flag_takes_model_ids_with_slashes(configured):
    keys = {"GROQ_API_KEY": "g", **KEY}
    config = configured("", keys, provider="groq", model="openai/gpt-oss-120b")
    assert main_model(config).name == "groq/openai/gpt-oss-120b"
    assert main_model(configured("", {}, provider="groq", model="a/b")).name == "groq/a/b"


def test_missing_provider_error_is_short_and_names_variables_and_config_init(configured):
    with pytest.raises(NoProvider) as caught:
        main_model(configured())

    assert "OPENAI_API_KEY" in str(caught.value) and len(str(caught.value)) < 120
    assert "dirge config init" in caught.value.hint
    assert "model server" not in str(caught.value)


def test_error_of_providers_without_keys_lists_key_variables(configured):
    entries = "".join(f'[providers.{n}]\ntype = "openai"\napi_key_env = "K{n}"\n' for n in "abcd")
    with pytest.raises(NoProvider, match=r"\(a: Ka, b: Kb, c: Kc, …\)"):
        main_model(configured(entries))


def test_base_url_without_provider_type_is_error_with_hint(configured):
    with pytest.raises(NoProvider) as caught:
        main_model(configured(base_url="http://127.0.0.1:9/v1", model="m"))
    assert "--provider openai" in caught.value.hint


@pytest.mark.parametrize(
    ("variables", "level"),
    [
        ({"OPENAI_API_KEY": "k"}, "medium"),
        ({"GEMINI_API_KEY": "k"}, "medium"),
        ({"ANTHROPIC_API_KEY": "k"}, "off"),
        ({"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}, "off"),
        ({"OLLAMA_HOST": "127.0.0.1:9"}, "off"),
    ],
)
def test_default_thinking_level_depends_on_provider(
    configured, variables: dict[str, str], level: str
) -> None:
    config = configured("", variables)
    alias = main_model(config).alias if "OLLAMA_HOST" not in variables else "ollama"

    assert resolve_model(config, f"{alias}/m").level == level
    assert resolve_model(config, f"{alias}/m:low").level == "low"
