"""What is generated is what its generator would write: the chart's README and schema, its dashboard, deploy/."""

import importlib.util
import json

import jsonschema
import pytest
import yaml

from tests.packaging.helm import CHART, CI_VALUES, ROOT


def program(name):
    """A module of hack/."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "hack" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


CHART_DOCS = program("chart_docs")
STALE = "run make docs"


def test_readme_and_schema_are_those_of_the_values():
    for path, content in CHART_DOCS.generated().items():
        assert path.read_text() == content, STALE


def test_the_dashboard_is_that_of_its_list():
    dashboard = program("dashboard")
    assert dashboard.FILE.read_text() == dashboard.text(), STALE


@pytest.mark.usefixtures("helm_built")
def test_deploy_is_rendered_from_the_chart():
    render_deploy = program("render_deploy")
    for folder in render_deploy.RELEASES:
        expected = render_deploy.rendered(folder)
        found = {path: path.read_text() for path in (ROOT / "deploy" / folder).glob("*.yaml")}
        assert found == expected, STALE


def closed(schema, path=()):
    """Paths of mappings whose keys the schema lists."""
    if "properties" in schema and schema.get("additionalProperties") is False:
        yield path
        for name, inner in schema["properties"].items():
            if isinstance(inner, dict):
                yield from closed(inner, (*path, name))


def test_the_schema_is_one_and_takes_the_defaults_and_no_key_besides():
    schema = json.loads((CHART / "values.schema.json").read_text())
    jsonschema.Draft7Validator.check_schema(schema)
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    jsonschema.validate(values, schema)
    paths = list(closed(schema))
    assert len(paths) > 15
    for path in paths:
        wrong = json.loads(json.dumps(values))
        at = wrong
        for name in path:
            at = at[name]
        at["misspelt"] = 1
        with pytest.raises(jsonschema.ValidationError, match="misspelt"):
            jsonschema.validate(wrong, schema)


def test_every_value_is_used_by_a_template():
    templates = "\n".join(path.read_text() for path in (CHART / "templates").rglob("*") if path.is_file())
    unused = [
        value.path for value in CHART_DOCS.read((CHART / "values.yaml").read_text()) if f"Values.{'.'.join(value.path)}" not in templates
    ]  # fmt: skip
    assert unused == []


def test_every_value_is_set_by_some_ci_values():
    """But for those that would make a render differ in a name only."""

    def paths(value, path=()):
        yield path
        if isinstance(value, dict):
            for name, inner in value.items():
                yield from paths(inner, (*path, name))

    given = {path for file in CI_VALUES for path in paths(yaml.safe_load(file.read_text()))}
    described = {value.path for value in CHART_DOCS.read((CHART / "values.yaml").read_text())}
    assert {".".join(path) for path in described - given} == set()


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("a: 1\n", "nothing describes a"),
        ("# -- A map.\na:\n  b: 1\nc:\n  # -- D.\n  d: 1\n  e: 2\n", "nothing describes c.e"),
    ],
)
def test_a_value_that_nothing_describes_is_found(text, complaint):
    with pytest.raises(CHART_DOCS.ValuesError, match=complaint):
        CHART_DOCS.read(text)


def test_what_a_comment_says_becomes_schema_and_row():
    text = '# ---- Of it all\n\n# A remark.\n\nmap:\n  # -- One | two,\n  # on two lines.\n  # @schema {"enum": [1,\n  # 2]}\n  key: 1\n'
    (value,) = CHART_DOCS.read(text)
    assert value == (("map", "key"), "Of it all", "One | two, on two lines.", {"enum": [1, 2]}, 1)
    schema = json.loads(CHART_DOCS.schema([value]))
    assert schema["properties"]["map"]["properties"]["key"] == {
        "description": "One | two, on two lines.", "type": "integer", "enum": [1, 2],
    }  # fmt: skip
    assert CHART_DOCS.readme([value], "@VALUES@").splitlines()[-1] == "| `map.key` | `1` | One \\| two, on two lines. |"
