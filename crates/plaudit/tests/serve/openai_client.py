"""Asks a running `plaudit serve` with the real openai package: python openai_client.py HOST:PORT TOKEN."""
import base64
import struct
import sys
import zlib

import openai

address, token = sys.argv[1:]


def png(side, level):
    chunk = lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rows = b"".join(b"\0" + bytes([level]) * side * 3 for _ in range(side))
    head = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def image(level):
    url = "data:image/png;base64," + base64.b64encode(png(32, level)).decode()
    return {"type": "image_url", "image_url": {"url": url}}


client = openai.OpenAI(base_url=f"http://{address}/v1", api_key=token, max_retries=0)
assert [model.id for model in client.models.list()] == ["judge"]
assert client.models.retrieve("judge").id == "judge"

trend = {"type": "text", "text": "Answer with exactly one word: positive, negative, or unclear."}
messages = [{"role": "user", "content": [image(level) for level in (0, 60, 120, 180, 240)] + [trend]}]
reply = client.chat.completions.create(model="judge", messages=messages, max_tokens=16, temperature=0.0)
assert reply.choices[0].message.content in ("positive", "negative", "unclear"), reply
assert reply.choices[0].finish_reason == "stop" and reply.usage.total_tokens >= 0

with_logprobs = client.chat.completions.create(model="judge", messages=messages, logprobs=True, top_logprobs=5)
assert with_logprobs.choices[0].logprobs is None

stream = client.chat.completions.create(model="judge", messages=messages, stream=True)
assert "".join(chunk.choices[0].delta.content or "" for chunk in stream) == reply.choices[0].message.content

score = client.chat.completions.create(
    model="judge", messages=[{"role": "user", "content": [image(9), {"type": "text", "text": "How good?"}]}]
)
assert 0.0 <= float(score.choices[0].message.content) <= 1.0

for wrong, expected in [
    (dict(model="gpt-4o", messages=messages), openai.NotFoundError),
    (dict(model="judge", messages=[{"role": "user", "content": "no image"}]), openai.BadRequestError),
    (dict(model="judge", messages=messages, n=99), openai.BadRequestError),
    (dict(model="judge", messages=messages, stop=["x"]), openai.BadRequestError),
    (dict(model="judge", messages=messages, tools=[{"type": "function", "function": {"name": "f"}}]), openai.BadRequestError),
    (dict(model="judge", messages=messages, response_format={"type": "json_object"}), openai.BadRequestError),
]:
    try:
        client.chat.completions.create(**wrong)
    except expected as error:
        assert error.body["message"], error
    else:
        raise AssertionError(f"{wrong} was taken")
try:
    openai.OpenAI(base_url=f"http://{address}/v1", api_key="wrong", max_retries=0).models.list()
except openai.AuthenticationError:
    pass
else:
    raise AssertionError("a wrong token was taken")
print("all understood")
