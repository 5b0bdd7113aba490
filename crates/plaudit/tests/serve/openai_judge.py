"""Asks a vision-language model behind `plaudit serve` with the real openai package: python openai_judge.py HOST:PORT."""
import sys

import openai

client = openai.OpenAI(base_url=f"http://{sys.argv[1]}/v1", api_key="none", max_retries=0)
messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Well?"}]


def ask(**more):
    return client.chat.completions.create(model="tiny", messages=messages, max_tokens=8, **more)


greedy = ask().choices[0]
assert ask().choices[0].message.content == greedy.message.content
assert len({ask(temperature=1.0).choices[0].message.content for _ in range(6)}) > 1
assert ask(temperature=1.0, seed=5).choices[0] == ask(temperature=1.0, seed=5).choices[0]
several = ask(temperature=1.0, n=3)
assert [choice.index for choice in several.choices] == [0, 1, 2]

told = ask(temperature=1.5, logprobs=True, top_logprobs=3)
tokens = told.choices[0].logprobs.content
assert len(tokens) == told.usage.completion_tokens
assert all(len(token.top_logprobs) == 3 and token.logprob <= 0 for token in tokens)

stream = ask(stream=True, stream_options={"include_usage": True}, logprobs=True, top_logprobs=1)
pieces, usage, finish = [], None, None
for event in stream:
    usage = event.usage or usage
    for choice in event.choices:
        pieces.append(choice.delta.content or "")
        finish = choice.finish_reason or finish
assert "".join(pieces) == greedy.message.content and len(pieces) > 4, pieces
assert usage.completion_tokens == 8 and finish == greedy.finish_reason == "length"

labels = ask(extra_body={"label_logits": ["positive", "negative", "unclear"]})
assert len(labels.choices[0].label_logits) == 3
for wrong in [
    dict(tools=[{"type": "function", "function": {"name": "f"}}]),
    dict(response_format={"type": "json_object"}),
    dict(logit_bias={"99999": 1}),
    dict(extra_body={"top_k": 3}),
]:
    try:
        ask(**wrong)
    except openai.BadRequestError as error:
        assert error.body["message"], error
    else:
        raise AssertionError(f"{wrong} was taken")
try:
    client.chat.completions.create(model="tiny", messages=[{"role": "user", "content": "as it was " * 30_000}])
except openai.APIStatusError as error:
    assert error.status_code == 413, error
else:
    raise AssertionError("a long text was taken")
print("all understood")
