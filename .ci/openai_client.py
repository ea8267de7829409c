"""Every method of OpenAI's client that docs/openai.md lists, against the service of the environment's variables.

The tables of that page and the steps below name the same methods: each is called, and works or is refused as the page
says. The examples of the page are run, too. The replies of the model are those of sdk/python/tests/scripted.py.
"""

import asyncio
import base64
import time
from pathlib import Path

import openai
import page_steps
from openai import AsyncOpenAI, OpenAI
from page_steps import refused, works

PAGE = Path(__file__).parent.parent / "docs" / "openai.md"
PRODUCT = [{"role": "user", "content": "What is six times seven?"}]
SALES = "What are the sales in all?"
INTERPRETER = {"type": "code_interpreter", "container": {"type": "auto"}}
client = OpenAI()


def raises(call, words, kind=openai.APIStatusError):
    try:
        call()
    except kind as error:
        assert words in f"{error} {error.code}", error
        return error
    raise AssertionError(f"nothing was raised about {words!r}")


@works("models.list", "models.retrieve")
def models():
    names = [model.id for model in client.models.list()]
    assert names == ["belljar", "belljar/llamacpp/scripted"], names
    for name in names:
        assert client.models.retrieve(name).owned_by == "belljar"
    raises(lambda: client.models.retrieve("gpt-4"), "belljar", openai.NotFoundError)


@works("chat.completions.create")
def chat():
    whole = client.chat.completions.create(model="belljar", messages=PRODUCT, temperature=0)
    assert whole.choices[0].message.content == "It is 42.", whole
    assert whole.choices[0].finish_reason == "stop"
    assert whole.usage.total_tokens == whole.usage.prompt_tokens + whole.usage.completion_tokens > 0
    stream = client.chat.completions.create(
        model="belljar/llamacpp/scripted", messages=PRODUCT, stream=True, stream_options={"include_usage": True}
    )
    chunks = list(stream)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == "It is 42.", chunks
    assert chunks[-1].usage.total_tokens > 0 and not chunks[-1].choices
    data = base64.b64encode(b"4000\n217\n").decode()
    file = {"type": "file", "file": {"filename": "sales.csv", "file_data": f"data:text/csv;base64,{data}"}}
    content = [{"type": "text", "text": SALES}, file]
    given = client.chat.completions.create(model="belljar", messages=[{"role": "user", "content": content}])
    assert given.choices[0].message.content == "The sales are 4217 in all.", given


def check_events(events):
    assert [event.sequence_number for event in events] == list(range(len(events)))
    kinds = [event.type.removeprefix("response.") for event in events]
    cell = ["in_progress", "interpreting", "completed"]
    at = [kinds.index(f"code_interpreter_call.{kind}") for kind in cell]
    assert kinds[:2] == ["created", "in_progress"] and at == sorted(at), kinds
    code = "".join(event.delta for event in events if event.type == "response.code_interpreter_call_code.delta")
    text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    assert "6 * 7" in code and text == "It is 42.", (code, text)
    assert kinds[-1] == "completed" and events[-1].response.output_text == text


@works("responses.create", "responses.retrieve", "responses.delete")
def responses():
    asked = {"model": "belljar", "input": "What is six times seven?", "tools": [INTERPRETER]}
    response = client.responses.create(**asked, include=["code_interpreter_call.outputs"])
    assert response.status == "completed" and response.output_text == "It is 42.", response
    cell = next(item for item in response.output if item.type == "code_interpreter_call")
    assert cell.outputs[0].logs == "42\n" and cell.container_id.startswith("cntr_"), cell
    assert response.usage.input_tokens_details.cached_tokens == 0
    check_events(list(client.responses.create(**asked, stream=True)))
    again = client.responses.retrieve(response.id)
    assert again.output_text == response.output_text
    cell = next(item for item in again.output if item.type == "code_interpreter_call")
    assert cell.outputs is None, cell
    client.responses.delete(response.id)
    raises(lambda: client.responses.retrieve(response.id), "response_not_found", openai.NotFoundError)


@works("responses.stream")
def streams():
    with client.responses.stream(model="belljar", input="What is six times seven?", tools=[INTERPRETER]) as stream:
        for _ in stream:
            pass
        final = stream.get_final_response()
    assert final.output_text == "It is 42."


@works("responses.cancel")
def background():
    response = client.responses.create(model="belljar", input="Wait", background=True)
    assert response.status in ("queued", "in_progress"), response.status
    assert client.responses.cancel(response.id).status == "cancelled"
    done = client.responses.create(model="belljar", input="What is six times seven?", background=True)
    while done.status in ("queued", "in_progress"):
        time.sleep(0.1)
        done = client.responses.retrieve(done.id)
    assert done.output_text == "It is 42."
    events = list(client.responses.retrieve(done.id, stream=True, starting_after=3))
    assert events[0].sequence_number == 4 and events[-1].type == "response.completed"


@works(
    "containers.create",
    "containers.list",
    "containers.retrieve",
    "containers.delete",
    "containers.files.create",
    "containers.files.list",
    "containers.files.retrieve",
    "containers.files.delete",
    "containers.files.content.retrieve",
)
def containers():
    expires = {"anchor": "last_active_at", "minutes": 5}
    container = client.containers.create(name="sales", expires_after=expires)
    assert container.status == "running" and container.expires_after.minutes == 5
    others = [client.containers.create(name=f"other {number}") for number in range(3)]
    ids = [one.id for one in client.containers.list(limit=2)]
    assert ids == [one.id for one in reversed([container, *others])], ids
    for other in others:
        client.containers.delete(other.id)
    raises(lambda: client.containers.retrieve(others[0].id), "container_not_found", openai.NotFoundError)

    files = client.containers.files
    given = files.create(container.id, file=("sales.csv", b"4000\n217\n"))
    assert given.path == "/mnt/data/sales.csv" and given.bytes == 9 and given.source == "user", given
    tool = {"type": "code_interpreter", "container": container.id}
    response = client.responses.create(model="belljar", input=SALES, tools=[tool])
    cited = response.output[-1].content[0].annotations[0]
    assert cited.type == "container_file_citation" and cited.filename == "total.txt", cited
    assert files.content.retrieve(cited.file_id, container_id=cited.container_id).read() == b"4217"
    # The container that was given has it, too.
    assert {file.path for file in files.list(container.id)} == {"/mnt/data/sales.csv", "/mnt/data/total.txt"}
    made = files.retrieve(cited.file_id, container_id=container.id)
    assert made.source == "assistant", made
    files.delete(given.id, container_id=container.id)
    raises(lambda: files.retrieve(given.id, container_id=container.id), "file_not_found", openai.NotFoundError)
    # A follow-up has the variables.
    half = client.responses.create(model="belljar", input="And half of it?", previous_response_id=response.id)
    assert half.output_text == "Half of it is 2108.5.", half
    assert client.containers.retrieve(container.id).name == "sales"
    client.containers.delete(container.id)


@refused("files.create", "embeddings.create", "responses.input_items.list", "vector_stores.create")
def other_routes():
    response = client.responses.create(model="belljar", input="What is six times seven?")
    for call in (
        lambda: client.files.create(file=("a", b"1"), purpose="assistants"),
        lambda: client.embeddings.create(model="belljar", input="x"),
        lambda: client.responses.input_items.list(response.id),
        lambda: client.vector_stores.create(name="x"),
    ):
        raises(call, "docs/openai.md", openai.NotFoundError)


@refused("tools", "n", "logprobs", "response_format", "stop", "store", "include", "tool_choice", "text", "conversation")
def parameters():
    function = {"type": "function", "function": {"name": "f", "parameters": {}}}
    json_schema = {"type": "json_schema", "json_schema": {"name": "x", "schema": {}}}
    for name, value in [
        ("tools", [function]),
        ("tool_choice", "required"),
        ("n", 2),
        ("logprobs", True),
        ("response_format", json_schema),
        ("stop", ["x"]),
    ]:
        error = raises(
            lambda: client.chat.completions.create(model="belljar", messages=PRODUCT, **{name: value}),
            name,
            openai.BadRequestError,
        )
        assert (error.code, error.param) == ("unsupported_parameter", name), error
    for name, value in [
        ("tools", [{"type": "web_search"}]),
        ("store", False),
        ("include", ["reasoning.encrypted_content"]),
        ("text", {"format": {"type": "json_object"}}),
        ("conversation", "conv_1"),
    ]:
        error = raises(
            lambda: client.responses.create(model="belljar", input="x", extra_body={name: value}),
            name,
            openai.BadRequestError,
        )
        assert (error.code, error.param) == ("unsupported_parameter", name), error
    wrong = client.with_options(api_key="bj_wrong_key")
    raises(wrong.models.list, "invalid_api_key", openai.AuthenticationError)


async def asynchronous():
    async with AsyncOpenAI() as other:
        whole = await other.chat.completions.create(model="belljar", messages=PRODUCT)
        assert whole.choices[0].message.content == "It is 42."
        stream = await other.chat.completions.create(model="belljar", messages=PRODUCT, stream=True)
        text = [chunk.choices[0].delta.content or "" async for chunk in stream]
        assert "".join(text) == "It is 42."
        stream = await other.responses.create(
            model="belljar", input="What is six times seven?", tools=[INTERPRETER], stream=True
        )
        check_events([event async for event in stream])
        container = await other.containers.create(name="asynchronous")
        file = await other.containers.files.create(container.id, file=("a b.txt", b"1"))
        content = await other.containers.files.content.retrieve(file.id, container_id=container.id)
        assert content.read() == b"1"
        await other.containers.delete(container.id)
        # Who leaves a stream cancels its run.
        stream = await other.responses.create(model="belljar", input="Wait", stream=True)
        left = (await anext(aiter(stream))).response.id
        await stream.close()
        for _ in range(100):
            status = (await other.responses.retrieve(left)).status
            if status == "cancelled":
                return
            await asyncio.sleep(0.1)
        raise AssertionError(status)


def main():
    page_steps.check(PAGE)
    for function, _, _ in page_steps.steps:
        began = time.monotonic()
        function()
        print(f"{time.monotonic() - began:6.2f} s  {function.__name__}", flush=True)
    asyncio.run(asynchronous())
    page_steps.run_examples(PAGE)


main()
