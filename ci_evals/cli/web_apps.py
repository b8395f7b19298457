"""Finds a FastAPI or Flask app in a project's sources, its route for a question, and the command to
start it. The sources are read, not run.
"""

import ast
import builtins
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

PORT = 8123  # a developer's own app is more likely to listen at 8000 or 5000
QUESTIONS = ("question", "message", "prompt", "query", "input", "text", "content", "q")
ANSWERS = ("answer", "reply", "response", "output", "message", "result", "text", "content")
_CHATTY = ("chat", "ask", "answer", "question", "query", "message", "complet", "respon", "generat")
_PLACEHOLDERS: Mapping[str, Any] = {"int": 1, "float": 1.0, "bool": False, "str": "evals"}

Definition = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Module:
    """A Python file.

    Args:
        module: the name under which it is imported.
        file: its path, relative to the project.
        tree: its content.
    """

    module: str
    file: Path
    tree: ast.Module


@dataclass(frozen=True, slots=True)
class WebApp:
    """An app and the request that asks it.

    Args:
        name: `module:variable`.
        command: starts it.
        path: the path of the route that takes a question, with a query if that has the question.
        method: the method of the route.
        body: the JSON to send; None if there is none.
        output: the JSONPath of the answer; None if it is unknown or the whole response.
        port: where it listens.
        env: variables that its command needs.
        has_route: False if no route that takes a question was found.
    """

    name: str
    command: str
    path: str = "/"
    method: str = "POST"
    body: Mapping[str, Any] | None = None
    output: str | None = None
    port: int = PORT
    env: Mapping[str, str] = field(default_factory=dict)
    has_route: bool = True


def find_web_app(sources: Sequence[Module]) -> WebApp | None:
    """Return the first FastAPI or Flask app; None if there is none."""
    models: dict[str, ast.ClassDef] = {}
    for source in sources:
        for statement in ast.walk(source.tree):
            if isinstance(statement, ast.ClassDef):
                models.setdefault(statement.name, statement)
    for source in sources:
        for statement in source.tree.body:
            created = _created_app(statement)
            if created is None:
                continue
            command = _command(created, source)
            app = WebApp(f"{source.module}:{created.name}", command, has_route=False)
            routes = [*_routes(source.tree, {created.variable: ""})]
            prefix = _prefix_of_routers(source.tree)
            for other in sources:
                routes += _routes(other.tree, _routers(other.tree, prefix))
            asked = [_ask(app, route, created.framework, models) for route in routes]
            fitting = [candidate for candidate in asked if candidate is not None]
            fitting.sort(key=is_chatty, reverse=True)  # stable: else the first route in the file
            return next(iter(fitting), app)
    return None


@dataclass(frozen=True, slots=True)
class _Created:
    """The statement that creates an app.

    Args:
        framework: `FastAPI` or `Flask`.
        variable: the variable of the app, which decorates its routes.
        factory: the function that creates and returns it; None if it is created on import.
    """

    framework: str
    variable: str
    factory: str | None = None

    @property
    def name(self) -> str:
        """The name under which the app is started."""
        return self.factory or self.variable


def _created_app(statement: ast.stmt) -> _Created | None:
    """Return the app that a statement makes, such as `app = FastAPI()` or `def create_app()`."""
    match statement:
        case ast.FunctionDef(name="create_app" | "make_app" as factory, body=body):
            for inner in body:
                created = _created_app(inner)
                if created is not None:
                    return replace(created, factory=factory)
            return None
        case ast.Assign(targets=[ast.Name(id=variable)], value=ast.Call(func=function)):
            pass
        case ast.AnnAssign(target=ast.Name(id=variable), value=ast.Call(func=function)):
            pass
        case _:
            return None
    framework = ast.unparse(function).rpartition(".")[2]
    if framework in ("FastAPI", "Flask"):
        return _Created(framework, variable)
    return None


def _command(created: _Created, source: Module) -> str:
    in_src = source.file.parts[0] == "src"
    if created.framework == "Flask":
        place = source.module
        if in_src:
            place = source.file.as_posix()
        if created.name not in ("app", "application"):
            place += f":{created.name}"
        return f"flask --app {place} run --port {PORT}"
    command = f"uvicorn {source.module}:{created.name} --port {PORT}"
    if created.factory is not None:
        command += " --factory"
    if in_src:
        command += " --app-dir src"
    return command


@dataclass(frozen=True, slots=True)
class _Route:
    method: str
    path: str
    function: Definition
    response: str


def _prefix_of_routers(tree: ast.Module) -> str:
    """Return the prefix of an app's routers; empty if they don't share one."""
    prefixes = set()
    for node in ast.walk(tree):
        match node:
            case ast.Call(
                func=ast.Attribute(attr="include_router" | "register_blueprint"), keywords=keywords
            ):
                prefixes.add(_prefix(keywords))
    if len(prefixes) != 1:
        return ""
    return prefixes.pop()


def _prefix(keywords: Sequence[ast.keyword]) -> str:
    for keyword in keywords:
        match keyword:
            case ast.keyword(arg="prefix" | "url_prefix", value=ast.Constant(value=str(prefix))):
                return prefix
    return ""


def _routers(tree: ast.Module, prefix: str) -> Mapping[str, str]:
    """Return the routers of a module, each with the prefix of its paths."""
    routers = {}
    for statement in tree.body:
        match statement:
            case ast.Assign(
                targets=[ast.Name(id=variable)],
                value=ast.Call(func=ast.Name(id="APIRouter" | "Blueprint"), keywords=keywords),
            ):
                routers[variable] = prefix + _prefix(keywords)
    return routers


def _routes(tree: ast.Module, owners: Mapping[str, str]) -> Iterator[_Route]:
    """Yield functions that are decorated with `@app.post("/chat")`.

    Args:
        tree: a module.
        owners: the variables of apps and routers, with the prefix of their paths.
    """
    for function in ast.walk(tree):
        if not isinstance(function, Definition):
            continue
        for decorator in function.decorator_list:
            match decorator:
                case ast.Call(
                    func=ast.Attribute(value=ast.Name(id=name), attr=attribute),
                    args=[ast.Constant(value=str(path)), *_],
                    keywords=keywords,
                ) if name in owners:
                    options = {each.arg: ast.unparse(each.value) for each in keywords}
                    method = attribute.upper()
                    if attribute == "route":
                        method = "GET"
                        if "POST" in options.get("methods", ""):
                            method = "POST"
                    if method in ("GET", "POST"):
                        response = options.get("response_model", "")
                        yield _Route(method, owners[name] + path, function, response)


def is_chatty(app: WebApp) -> bool:
    """Return True if the path of an app's route sounds like one for questions."""
    return any(word in app.path.lower() for word in _CHATTY)


def _ask(
    app: WebApp, route: _Route, framework: str, models: Mapping[str, ast.ClassDef]
) -> WebApp | None:
    """Return the app with the request to a route; None if the route takes no question.

    Routes with parameters in their path, such as `/orders/{id}`, are left out: their values are
    unknown.
    """
    if "{" in route.path or "<" in route.path:
        return None
    path = route.path
    body: Mapping[str, Any] | None = None
    if framework == "Flask":
        if route.method == "GET":
            return None
        body = _json_read_by(route.function)
    else:
        body = _body_of(route.function, models)
        parameter = _query_of(route.function)
        if body is None and parameter is not None:
            path += f"?{parameter}={{{{ input | urlencode }}}}"
        elif body is None:
            return None
    if body is None and path == route.path:
        return None
    output = _output_of(route, framework, models)
    return WebApp(app.name, app.command, path, route.method, body, output)


def _parameters(function: Definition) -> Sequence[tuple[str, str]]:
    """Return the parameters of a function that a request fills, with their types.

    `Annotated[Ask, Body()]` is an `Ask`. Arguments that `Depends` makes are left out.
    """
    arguments = function.args
    by_place = [*arguments.posonlyargs, *arguments.args]
    defaults: dict[str, ast.expr | None] = {}
    # In the syntax tree, defaults of positional arguments belong to the last ones.
    for argument, default in zip(reversed(by_place), reversed(arguments.defaults), strict=False):
        defaults[argument.arg] = default
    for argument, by_name in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        defaults[argument.arg] = by_name
    parameters = []
    for argument in (*by_place, *arguments.kwonlyargs):
        annotation, *marks = _parts_of_annotation(argument.annotation)
        if any(_is_dependency(mark) for mark in (*marks, defaults.get(argument.arg))):
            continue
        text = ""
        if annotation is not None:
            text = ast.unparse(annotation)
        parameters.append((argument.arg, text))
    return parameters


def _parts_of_annotation(annotation: ast.expr | None) -> Sequence[ast.expr | None]:
    """Return the type and the metadata of `Annotated`."""
    match annotation:
        case ast.Subscript(value=ast.Name(id="Annotated"), slice=ast.Tuple(elts=parts)):
            return parts
        case ast.Subscript(value=ast.Attribute(attr="Annotated"), slice=ast.Tuple(elts=parts)):
            return parts
    return (annotation,)


def _is_dependency(expression: ast.expr | None) -> bool:
    """Return True for `Depends(…)` and `Security(…)`, with which FastAPI makes the argument."""
    match expression:
        case ast.Call(func=ast.Name(id=name)) | ast.Call(func=ast.Attribute(attr=name)):
            return name in ("Depends", "Security")
    return False


def _body_of(function: Definition, models: Mapping[str, ast.ClassDef]) -> Mapping[str, Any] | None:
    """Return the JSON body of a FastAPI function, according to its pydantic model."""
    for _, annotation in _parameters(function):
        model = models.get(annotation.rpartition(".")[2])
        if model is not None:
            return _fill(_required_fields(model), _fields(model))
    return None


def _query_of(function: Definition) -> str | None:
    """Return the query parameter of a FastAPI function that takes a question."""
    texts = [name for name, annotation in _parameters(function) if annotation == "str"]
    return _preferred(texts, QUESTIONS)


def _fields(model: ast.ClassDef) -> Mapping[str, str]:
    """Return the fields of a pydantic model, with their annotations."""
    fields = {}
    for statement in model.body:
        match statement:
            case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation):
                fields[name] = ast.unparse(annotation)
    return fields


def _required_fields(model: ast.ClassDef) -> Sequence[str]:
    required = []
    for statement in model.body:
        match statement:
            case ast.AnnAssign(target=ast.Name(id=name), value=value) if not _has_default(value):
                required.append(name)
    return required


def _has_default(value: ast.expr | None) -> bool:
    """Return True unless a field has no value, or one such as `Field(..., min_length=1)`."""
    match value:
        case None | ast.Call(args=[ast.Constant(value=builtins.Ellipsis), *_]):
            return False
        case ast.Call(func=ast.Name(id="Field"), args=[], keywords=keywords):
            return any(each.arg in ("default", "default_factory") for each in keywords)
    return True


def _fill(required: Sequence[str], fields: Mapping[str, str]) -> Mapping[str, Any] | None:
    """Return a body with the question in its field, and placeholders in other required fields."""
    body: dict[str, Any] = {}
    texts = [name for name, annotation in fields.items() if annotation.startswith("str")]
    question = _preferred(texts, QUESTIONS)
    if question is None and "messages" in fields:
        question = "messages"
    elif question is None and len(texts) == 1 and texts[0] in required:
        question = texts[0]
    if question is None:
        return None
    body[question] = "{{ input }}"
    if question == "messages":
        body[question] = [{"role": "user", "content": "{{ input }}"}]
    for name in required:
        if name != question:
            body[name] = _PLACEHOLDERS.get(fields[name])
    return body


def _json_read_by(function: Definition) -> Mapping[str, Any] | None:
    """Return the JSON body of a Flask function, from the keys that it reads
    (`request.json["message"]`).
    """
    names = []
    for node in ast.walk(function):
        match node:
            case ast.Subscript(slice=ast.Constant(value=str(name))):
                names.append(name)
            case ast.Call(func=ast.Attribute(attr="get"), args=[ast.Constant(value=str(name)), *_]):
                names.append(name)
    question = _preferred(names, QUESTIONS)
    if question is None:
        return None
    return {question: "{{ input }}"}


def _output_of(route: _Route, framework: str, models: Mapping[str, ast.ClassDef]) -> str | None:
    """Return the JSONPath of the answer in the response of a route; None if it is unknown."""
    names: list[str] = []
    declared = [route.response]
    if route.function.returns is not None:
        declared.append(ast.unparse(route.function.returns))
    for annotation in declared:
        model = models.get(annotation.rpartition(".")[2])
        if model is not None:
            names += _fields(model)
    for node in ast.walk(route.function):
        if isinstance(node, ast.Return) and node.value is not None:
            names += _keys_of(node.value)
    name = _preferred(names, ANSWERS)
    if name is None and len(set(names)) == 1:
        name = names[0]
    if name is not None:
        return f"$.{name}"
    if framework == "FastAPI" and "str" in declared:
        return "$"  # FastAPI sends a text as JSON, in quotes
    return None


def _keys_of(returned: ast.expr) -> Sequence[str]:
    """Return the keys of a mapping in a `return`: a dict, `jsonify(…)`, or an object."""
    match returned:
        case ast.Tuple(elts=[first, *_]):  # with a status
            return _keys_of(first)
        case ast.Dict(keys=keys):
            return [
                key.value
                for key in keys
                if isinstance(key, ast.Constant) and isinstance(key.value, str)
            ]
        case ast.Call(args=[ast.Dict() as given]):
            return _keys_of(given)
        case ast.Call(keywords=keywords):
            return [each.arg for each in keywords if each.arg is not None]
    return ()


def _preferred(names: Sequence[str], known: Sequence[str]) -> str | None:
    """Return the first of the known names that `names` has; None if it has none."""
    for name in known:
        if name in names:
            return name
    return None
