"""Has Hydra's own basic sweeper take overrides apart, and writes down the values.

    pip install hydra-core==1.3.*
    python make_sweeps.py            # rewrites sweeps.json beside this file

Each case is an override. The result is the value of every override that it stands for, as Python's `repr` shows it, or null
where Hydra refuses it.
"""

import json
from pathlib import Path

from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.override_parser.overrides_parser import OverridesParser

CASES = [
    "a=1", "a=b", "a=1,2", "a=1,2,3", "a=x,y", "a= 1 , 2 ", "a=x y,z", "a=1e-3,3e-4", "a=0.1,1.0,-2", "a=true,false",
    "a=null,1", "a='x,y',z", 'a="x,y",z', "a='1',1", "a='true',true", r"a='it\'s',b", r"a='x\\',y", r"a=x\,y,z",
    "a=[1,2],[3]", "a=[],[a,b]", "a={b:1},{b:2}", "a={b: [1, x], c: {d: e}},{}", "a=${b.c},2", "a=x/${b}/y,z",
    "a=http://x:8080/y@z,b", "a='',b", "a='[1,2]',b", "a=' x ',y", "a='${b}',c", r"a=b\=c,d", "a=007,8", "a=1_000,2",
    "a=inf,nan", "a=-1,+1", "a=1,", "a=,1", "a=1,,2", "a=1,2)", "a=(1,2)", "a=[1,2", "a=b=c,d",
    "a=choice(1,2)", "a=choice(a,b,c)", "a=choice('a,b',c)", "a=choice(1)", "a=choice()", "a=choice( a , b )",
    "a=choice([1,2],{x:1})", "a=choice(choice(1,2))", "a=choice(1,2),3", "a=1,choice(2,3)", "a=choice(x=1)",
    "a=range(3)", "a=range(1,4)", "a=range(1,10,3)", "a=range(10,1,-3)", "a=range(4,1)", "a=range(0,1,0.1)",
    "a=range(0,1,0.25)", "a=range(1,0,-0.1)", "a=range(0.5,3)", "a=range(start=1,stop=4)", "a=range(1,stop=4,step=2)",
    "a=range(stop=3,start=0)", "a=range(1e-3,5e-3,1e-3)", "a=range(0,0.3,0.1)", "a=range(0,2.0,0.2)", "a=range()",
    "a=range(1,2,3,4)", "a=range(x,3)", "a=range(1,4),5", "a=range(-3,3)", "a=range(1e16,10000000000000010,1.5)",
    "a=range(0,1e-20,3e-21)", "a=range(0.1,1.1,0.3)", "a=range(1,4,start=2)", "a=range(end=3)",
    "a=int(1.5,2.5)", "a=float(1,2)", "a=str(1,2)", "a=bool(0,1)", "a=int(choice(1.1,2.9))", "a=str(choice(1,true,null))",
    "a=float(choice('1','2e3'))", "a=int(range(0.5,3.5))", "a=float(range(1,4))", "a=str(range(1,3))", "a=int(x,1)",
    "a=int([1.5,2.5],3.5)", "a=float(value=choice(1,2))", "a=choice(int('5'),2)", "a=choice(int(1,2))", "a=int(str(1,2))",
    "a=str(float(1,2))", "a=choice(float(range(1,3)))",
    "a=sort(3,1,2)", "a=sort(b,a)", "a=sort(3,1,2,reverse=true)", "a=sort(choice(c,a,b))", "a=sort(range(1,5))",
    "a=sort(range(5,1,-1))", "a=sort(range(1,5),reverse=true)", "a=sort(range(1,10,3),reverse=true)",
    "a=sort(sweep=choice(2,1))", "a=sort(range(0,1,0.25),reverse=true)", "a=sort(1,x)", "a=sort([3,1],[2])",
    "a=sort(range(10,1,-3))", "a=sort(1.5,1,true)",
    "a.b.c=1,2", "+a=1,2", "++a=1,2", "g/h=x,y", "g@p.q=x,y", "a=foo(1,2)", "a=foo(1),2", "a",
]


def values(text):
    try:
        parsed = OverridesParser.create().parse_overrides([text])
        [batch] = BasicSweeper.split_arguments(parsed, max_batch_size=None)
        words = [words for [words] in batch]
        found = OverridesParser.create().parse_overrides(words)
        shown = [repr(one.value()) for one in found]
        return shown or None  # an empty sweep runs nothing, which is refused here
    except Exception:
        return None


def main():
    cases = [{"text": text, "values": values(text)} for text in CASES]
    path = Path(__file__).with_name("sweeps.json")
    path.write_text("[\n" + ",\n".join(" " + json.dumps(case) for case in cases) + "\n]\n")
    print(f"{len(cases)} cases, {sum(case['values'] is None for case in cases)} refused")


main()
