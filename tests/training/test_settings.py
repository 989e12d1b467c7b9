import pytest

from lmkrag.errors import UsageError
from lmkrag.training.settings import load_settings

GOOD = """
out = "run"
data = "{data}"
[[stages]]
name = "one"
steps = 2
sets = [{{ path = "sample", task = "documents" }}]
"""


@pytest.fixture
def config(sample_set, tmp_path):
    path = tmp_path / "train.toml"
    path.write_text(GOOD.format(data=sample_set.parent))
    return path


def test_defaults_and_relative_paths(config, tmp_path):
    settings = load_settings(config)
    assert settings.stages[0].windows == [254]
    assert settings.resolve(settings.out) == tmp_path / "run"
    assert settings.model.pooling == "lmk+mean"


def test_a_base_beside_the_configuration(config, tmp_path):
    config.write_text(
        config.read_text().replace("[[stages]]", '[model]\nbase = "./base/encoder"\n[[stages]]')
    )
    assert load_settings(config).model.base == str(tmp_path / "base" / "encoder")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('out = "run"', "", "'out' is missing"),
        ("steps = 2", "stepps = 2", "unknown key 'stepps'"),
        ("steps = 2", 'steps = "two"', "steps: must be int, not 'two'"),
        ("steps = 2", "steps = true", "steps: must be int, not True"),
        ("steps = 2", "steps = 0", "steps must be above 0"),
        ("steps = 2", "steps = 2\nwindows = 3", "windows: must be a list"),
        ("steps = 2", "steps = 2\ntemperature = 0", "temperature must be above 0"),
        ("steps = 2", "steps = 2\nmixing = 1.5", "mixing must be in [0, 1]"),
        ("steps = 2", "steps = 2\ntitles = 1.5", "titles must be in [0, 1]"),
        ("steps = 2", 'steps = 2\nteacher = "me"', "teacher must be one of base, latest"),
        ("steps = 2", "steps = 2\nthorough = true", "thorough needs imitation or anchor"),
        (
            "[[stages]]",
            "[model]\ntitle_tokens = -1\n[[stages]]",
            "model.title_tokens must be 0 or more",
        ),
        ('path = "sample"', 'path = "nowhere"', "no such set"),
        (
            'task = "documents"',
            'task = "dance"',
            "unknown task 'dance': one of pairs, shuffled, documents",
        ),
        ("[[stages]]", '[model]\npooling = "sum"\n[[stages]]', "unknown pooling 'sum'"),
        (
            "[[stages]]",
            '[model]\nlandmark = ""\n[[stages]]',
            "pooling 'lmk+mean' needs a landmark token",
        ),
        ("[[stages]]", '[evaluation]\nsets = ["gone"]\n[[stages]]', "evaluation: no such set"),
        ("[[stages]]", "keep_base = 1.0\n[[stages]]", "keep_base must be in [0, 1)"),
        ('out = "run"', "out = ", "not TOML"),
    ],
)
def test_a_bad_configuration_is_named(config, old, new, message):
    config.write_text(config.read_text().replace(old, new))
    with pytest.raises(UsageError) as error:
        load_settings(config)
    assert message in str(error.value)
    assert str(config) in str(error.value)


def test_no_configuration(tmp_path):
    with pytest.raises(UsageError, match="no such file"):
        load_settings(tmp_path / "train.toml")


def test_two_stages_of_one_name(config):
    stage = config.read_text().partition("[[stages]]")[2]
    config.write_text(config.read_text() + "[[stages]]" + stage)
    with pytest.raises(UsageError, match="two stages have the same name"):
        load_settings(config)


def test_a_stage_without_sets_takes_those_before(config):
    config.write_text(config.read_text() + '[[stages]]\nname = "two"\nsteps = 1\n')
    one, two = load_settings(config).stages
    assert one.sets == two.sets
