"""The cases: small configs that each show one rule."""

CASES = []


def case(name, files, *overrides, config_name="config", env=None):
    if isinstance(files, str):
        files = {"config.yaml": files}
    files = {path if path.startswith("extra/") else f"conf/{path}": text for path, text in files.items()}
    CASES.append(
        {
            "name": name,
            "files": files,
            "config_name": config_name,
            "overrides": list(overrides),
            "env": env or {},
        }
    )


# --- scalars -------------------------------------------------------------------------------------------------

case(
    "scalars: numbers",
    """
a: 1e-6
b: 012
c: 0o14
d: 0x1F
e: 1_000
f: 0-0
g: 12:30:45
h: 1.
i: +1
j: -.5
k: .5
l: 1E5
m: 0b11
n: 1:30.5
o: 08
p: 1e5
q: 1.5e3
r: -0.0
s: 1_000.5
t: .inf
u: -.inf
v: 3.0
w: 1e+3
x: 0.1e-7
y: 123456789012345678901234567890
z: 0
""",
)
case("scalars: nan", "a: .nan\nb: .NaN\nc: nan")
case(
    "scalars: booleans and nulls",
    "a: yes\nb: No\nc: on\nd: OFF\ne: true\nf: False\ng: y\nh: n\ni: ~\nj:\nk: null\nl: Null\nm: nULL\nn: tRUE",
)
case("scalars: dates are text", "a: 2024-01-02\nb: 2024-01-02 03:04:05\nc: 2024-01-02T03:04:05Z")
case("scalars: quotes make text", "a: '1'\nb: \"true\"\nc: 'null'\nd: ''\ne: \"1e-3\"\nf: '???'")
case("scalars: tags", 'a: !!str 1\nb: !!float 1\nc: !!int "5"\nd: !!bool "yes"\ne: !!null x\nf: !!str')
case("scalars: bad tag value", "a: !!int x")
case("scalars: unknown tag", "a: !foo 1")
case("scalars: python tag", "a: !!python/object:os.system x")
case("scalars: equal sign", "a: =")
case("scalars: percent and friends", "a: 50%\nb: a@b\nc: a:b\nd: http://x:80/y\ne: a#b\nf: a # comment\ng: -x\nh: '#x'")
case("scalars: multi line", "a: |\n  one\n  two\nb: >\n  one\n  two\n\n  three\nc: |-\n  x\nd: >-\n  x\n  y\ne: |+\n  x\n\nf: one\n  two\ng: 'a\n  b'\nh: \"a\\n\\tb\\u00e9\\x41\"")
case("scalars: quoted text that goes on at the left", "a:\n  b: \"one\ntwo\n\nthree\"\n  c: 'x\ny'\nd: 1")
case("scalars: quoted escapes", "a: 'it''s'\nb: \"say \\\"x\\\"\"\nc: 'a\\nb'")
case("scalars: unicode", "a: héllo\nb: 世界\n世: 界")
case("scalars: flow", "a: {b: 1, c: [x, 'y', 1.0], d: }\ne: [1, [2, {f: g}], ]\nh: {}\ni: []")
case("scalars: flow without spaces", 'a: {"b":1,c: 2}\nd: [a,b]')
case("scalars: keys", "1: a\ntrue: b\n2.5: c\n'3': d\nno: e")
case("scalars: null key", "~: a")
case("scalars: complex key", "? [a, b]\n: c")
case("scalars: explicit key", "? a\n: b\n? c\n")
case("scalars: key order", "z: 1\na: 2\nm: 3")
case("scalars: key spaces", "a b: 1\n'c.d': 2\n\"e\": 3")

# --- documents ------------------------------------------------------------------------------------------------

case("documents: empty", "")
case("documents: only comments", "# nothing here\n# at all\n")
case("documents: null", "~")
case("documents: list", "- a\n- b")
case("documents: number", "5")
case("documents: start mark", "---\na: 1\n")
case("documents: end mark", "a: 1\n...\n")
case("documents: two", "a: 1\n---\nb: 2")
case("documents: duplicate key", "a: 1\nb: 2\na: 3")
case("documents: duplicate nested key", "a:\n  b: 1\n  b: 1")
case("documents: duplicate int key is allowed", "1: a\n2: b\n1: c")
case("documents: tab", "a:\n\tb: 1")
case("documents: bad indent", "a:\n  b: 1\n c: 2")
case("documents: unclosed", "a: [1, 2")
case("documents: unclosed quote", "a: 'x")
case("documents: colon in plain", "a: b: c")
case("documents: byte order mark", "\ufeffa: 1")
case("documents: windows lines", "a: 1\r\nb:\r\n  - x\r\n  - y\r\n")
case("documents: question mark in a list", "a: [1, ???]")
case("documents: list under key without indent", "a:\n- 1\n- 2\nb: 3")

# --- anchors ----------------------------------------------------------------------------------------------------

case("anchors: alias", "a: &x {b: 1}\nc: *x\nd: [*x, *x]")
case("anchors: scalar", "a: &x 1\nb: *x\nc: &y '1'\nd: *y")
case("anchors: merge key", "a: &x {b: 1, c: 2}\nd:\n  <<: *x\n  c: 3\n  e: 4")
case("anchors: merge key after", "a: &x {b: 1, c: 2}\nd:\n  c: 3\n  <<: *x")
case("anchors: merge list", "a: &x {b: 1}\nb: &y {b: 2, c: 3}\nd:\n  <<: [*x, *y]\n  e: 5")
case("anchors: merge chain", "a: &x {b: 1}\nb: &y\n  <<: *x\n  c: 2\nd:\n  <<: *y\n  b: 9")
case("anchors: merge scalar", "a: &x 1\nb:\n  <<: *x")
case("anchors: unknown", "a: *nope")
case("anchors: redefined", "a: &x 1\nb: *x\nc: &x 2\nd: *x")

# --- interpolation ----------------------------------------------------------------------------------------------

case("interpolation: node", "a: 1\nb: ${a}\nc: ${d.e}\nd: {e: [x, y]}\nf: ${d}")
case("interpolation: types", "a: [1, 1.0, true, null, x]\nb: ['${a.0}', '${a.1}', '${a.2}', '${a.3}', '${a.4}']")
case("interpolation: brackets", "a: {b: {c: 1}}\nd: ${a[b].c}\ne: ${a[b][c]}\nf: ${[a].b.c}\ng: [5, 6]\nh: ${g[1]}\ni: ${g.0}")
case("interpolation: relative", "a:\n  b: 1\n  c: ${.b}\n  d:\n    e: ${..b}\n    f: ${...g}\n    h: ${.e}\ng: 7")
case("interpolation: relative from list", "a:\n  b: 1\n  c:\n    - ${..b}\n    - ${.0}\n    - d: ${...b}")
case("interpolation: relative through reference", "a:\n  x: 1\n  y: ${.x}\nb: ${a}\nc: ${b.y}")
case("interpolation: too many dots", "a: {b: '${....c}'}")
case("interpolation: nested", "a: {x: 1, y: 2}\nk: y\nb: ${a.${k}}\nc: ${a[${k}]}\nref: a\nd: ${${ref}}\ne: ${${ref}.x}")
case("interpolation: nested path with dots", "a: {b: {c: 1}}\np: b.c\nd: ${a.${p}}")
case("interpolation: nested not a string", "a: {'1': x}\nk: 1\nb: ${a.${k}}")
case("interpolation: concatenation", "i: 1\nf: 1e-5\ng: 1.0\nt: true\nn: null\ns: x\na: v_${i}_${f}_${g}_${t}_${n}_${s}_y\nb: ${i}${i}\nc: ' ${i}'")
case("interpolation: concatenation of containers", "l: [1, a, null, 1.5, \"it's\"]\nd: {a: {b: true}, c: '${l}', 1: 2}\na: x${l}\nb: x${d}")
case("interpolation: floats print", "v: [100000.0, 1e16, 123456789.123, 0.0001, 0.00001, 1e22, 1.5e-7, 1e100, -0.0, 3.14]\na: '${v.0} ${v.1} ${v.2} ${v.3} ${v.4} ${v.5} ${v.6} ${v.7} ${v.8} ${v.9}'")
case("interpolation: escapes", "a: 1\nb: \\${a}\nc: \\\\${a}\nd: \\\\\\${a}\ne: x\\y\\\\z\nf: $a $$ {a}\ng: \\\\\\\\${a}\nh: a\\${a}b${a}c")
case("interpolation: spaces", "a: 1\nb: ${ a }\nc: \"${\\ta }\"")
case("interpolation: odd keys", "a-b: 1\na/b@c: 2\n$x: 3\n1: 4\n'2': 5\na: ['${a-b}', '${a/b@c}', '${$x}', '${2}']")
case("interpolation: int key is not found", "1: 4\na: ${1}")
case("interpolation: chain", "a: ${b}\nb: ${c}\nc: ${d.e}\nd: ${f}\nf: {e: end}")
case("interpolation: through an interpolated parent", "a: ${b}\nb: {c: {d: 1}}\ne: ${a.c.d}")
case("interpolation: missing key", "a: ${nope}")
case("interpolation: missing nested key", "a: {b: 1}\nc: ${a.nope}")
case("interpolation: into a scalar", "a: 1\nb: ${a.c}")
case("interpolation: bad index", "a: [1]\nb: ${a.x}")
case("interpolation: index out of range", "a: [1]\nb: ${a.5}")
case("interpolation: negative index", "a: [1]\nb: ${a.-1}")
case("interpolation: loop", "a: ${b}\nb: ${a}")
case("interpolation: self loop", "a: ${a}")
case("interpolation: loop in text", "a: x${b}\nb: y${a}")
case("interpolation: to parent", "a: {b: '${a}'}")
case("interpolation: to grandparent", "a: {b: {c: '${a}'}}")
case("interpolation: loop of containers", "a: {b: '${c}'}\nc: {d: '${a}'}")
case("interpolation: to missing", "a: ???\nb: ${a}")
case("interpolation: missing stays", "a: ???\nb:\n  c: ???\nd:\n  - 1\n  - ???")
case("interpolation: in lists and keys", "x: 1\na: ['${x}', {b: '${x}'}]\n'${x}': 2")
case("interpolation: multi line", "x: 1\na: |\n  one ${x}\n  two ${x}\n")
case("interpolation: null target", "a: null\nb: ${a}")
case("interpolation: empty text", "a: ''\nb: ${a}\nc: x${a}y")
for index, text in enumerate(
    ["${", "${}", "${a", "${a b}", "${a..b}", "${a.}", "x ${ y", "${a[b}", "${f:a=b}", "${f:'x}", "${f:~}", "${:x}", "${f:é}", "${a${b}}"]
):
    case(f"interpolation: bad syntax {index}", f"a: 1\nb: {text!r}")
case("interpolation: bad syntax overridden is still bad", "a: '${'", "a=1")

# --- resolvers --------------------------------------------------------------------------------------------------

case("oc.env: value is text", "a: ${oc.env:V}\nb: ${oc.env:W}\nc: x/${oc.env:V}", env={"V": "12", "W": "true"})
case("oc.env: default", "a: ${oc.env:NOPE,1}\nb: ${oc.env:NOPE,null}\nc: ${oc.env:NOPE,'x y'}\nd: ${oc.env:NOPE,true}\ne: ${oc.env:NOPE,1.50}\nf: ${oc.env:NOPE,''}\ng: ${oc.env:NOPE,/a/b}\nh: ${oc.env:NOPE,${x}}\nx: 5\ni: ${oc.env:NOPE,[1,a]}")
case("oc.env: missing", "a: ${oc.env:NOPE}")
case("oc.env: empty is set", "a: ${oc.env:E,x}", env={"E": ""})
case("oc.env: interpolation in value is not resolved", "a: ${oc.env:V}\nb: 1", env={"V": "${b}"})
case("oc.decode", "a: ${oc.decode:'1'}\nb: ${oc.decode:'[1, a, 2.0]'}\nc: \"${oc.decode:'{x: 1, y: [z]}'}\"\nd: ${oc.decode:null}\ne: ${oc.decode:${oc.env:V}}\nf: ${oc.decode:'true'}\ng: ${oc.decode:${oc.env:W}}\nx: 9", env={"V": "0.5", "W": "${x}"})
case("oc.decode: needs text", "a: ${oc.decode:1}")
case("oc.decode: bad", "a: ${oc.decode:'[1'}")
case("oc.select", "a: ${oc.select:b,7}\nc: ${oc.select:d,7}\nd: 3\ne: ${oc.select:m,5}\nm: ???\nf: ${oc.select:nope}\ng: ${oc.select:d.x,4}\nh: {i: 1, j: '${oc.select:.i}', k: '${oc.select:..d}', l: '${oc.select:.nope,${.i}}'}")
case("oc.select: container", "a: {b: 1, c: '${.b}'}\nd: ${oc.select:a}")
case("oc.create", "a: ${oc.create:{x:1,y:[2,3]}}\nb: ${a.x}\nc: ${oc.create:[1,2]}\nd: \"${oc.create:'x: 1'}\"\ne: ${oc.create:${oc.env:Y}}\nf: ${e.p.q}", env={"Y": "{p: {q: 0.5}}"})
case("oc.create: word", "a: ${oc.create:word}")
case("oc.dict.keys and values", "d: {a: 1, b: '${x}', c: {e: f}}\nx: 5\nk: ${oc.dict.keys:d}\nv: ${oc.dict.values:d}\ns:\n  t: {u: 1}\n  w: ${oc.dict.values:.t}\n  y: ${oc.dict.keys:..d}")
case("oc.dict.keys: not a dict", "d: [1]\nk: ${oc.dict.keys:d}")
case("oc.dict.keys: missing", "k: ${oc.dict.keys:d}")
case("oc.deprecated", "a: ${oc.deprecated:b}\nb: 5")
case("oc.deprecated: missing", "a: ${oc.deprecated:b}")
case("resolver: unknown", "a: ${nope:1}")
case("resolver: wrong number of arguments", "a: ${multiply:1}")
case("multiply", "a: ${multiply:2,3}\nb: ${multiply:2,1.5}\nc: ${multiply:${a},${b}}\nd: ${multiply:ab,3}\ne: ${multiply:true,3}\nf: ${multiply:2,-3}\ng: ${multiply:1e-3,10}")
case("multiply: bad", "a: ${multiply:a,b}")
case("multiply: null", "a: ${multiply:null,2}")
case("int_div", "a: ${int_div:7,2}\nb: ${int_div:-7,2}\nc: ${int_div:7.5,2}\nd: ${int_div:${a},${x.y}}\nx: {y: 2}\ne: ${int_div:1,0.1}\nf: ${int_div:7,2.0}")
case("int_div: zero", "a: ${int_div:1,0}")
case("subtract", "a: ${subtract:5,2}\nb: ${subtract:5,2.5}\nc: ${subtract:${a},1}\nd: ${subtract:true,true}")
case("subtract: text", "a: ${subtract:'5',2}")
case("not", "a: ${not:true}\nb: ${not:${t}}\nt: false\nc: ${not:0}\nd: ${not:null}\ne: ${not:''}\nf: ${not:${l}}\nl: []\ng: ${not:x}\nh: ${not:${m}}\nm: {a: 1}")
case("torch.dtype", "a: ${torch.dtype:bfloat16}\nb: ${torch.dtype:half}\nc: ${torch.dtype:${p}}\np: float32\nd: x_${torch.dtype:long}")
case("torch.dtype: unknown", "a: ${torch.dtype:float33}")
case("resolver: nested", "x: 4\na: ${multiply:${int_div:${x},2},${subtract:${x},1}}\nb: ${not:${not:${x}}}")
case("resolver: arguments", "a: |-\n  ${oc.create:[1, 1.5, true, null, x y, 'q,r', \"z\", a/b, -1, 1e3, [2], {k: v}]}\nb: '${oc.create:{a b: 1, 2: 3, true: 4}}'\nc: ${oc.create:['${x}', \"p${x}q\", '\\${x}']}\nx: 7")
case("resolver: escapes in arguments", "a: ${oc.create:[a\\,b, c\\ , \\[x\\], d\\:e, 'it\\'s', 'b\\\\']}")
case("resolver: spaces around arguments", "a: ${oc.create:[ a , b c ]}\nb: '${ oc.env : NOPE , x }'\nc: '${multiply: 2 , 3 }'")
case("resolver: empty arguments", "a: ${oc.create:[a,]}\nb: ${oc.create:[,a]}\nc: ${oc.env:NOPE,}")
case("resolver: name from interpolation", "n: env\na: ${oc.${n}:V}", env={"V": "x"})
case("resolver: quoted interpolation", "x: {a: 1}\na: ${oc.create:['${x}', '${x.a}']}")
case("now", "a: ${now:%Y-%m-%d_%H-%M-%S}\nb: ${now:'%H:%M'}\nc: run/${now:%j}")
case("hydra: runtime", "a: ${hydra:runtime.cwd}\nb: ${hydra:job.config_name}\nc: ${hydra:job.name}\nd: ${hydra:runtime.cwd}/x")
case("hydra: choices", {"config.yaml": "defaults:\n  - env: x\na: ${hydra:runtime.choices.env}", "env/x.yaml": "v: 1"})
case("hydra: run dir from the config", "hydra:\n  run:\n    dir: logs/${now:%Y}\na: ${hydra:run.dir}")
case("hydra: job name override", "a: ${hydra:job.name}\nb: ${hydra:job.override_dirname}\nc: 1", "hydra.job.name=me", "c=2")

# --- defaults lists -----------------------------------------------------------------------------------------------

ENV = {"env/x.yaml": "name: x\nsize: 1\n", "env/y.yaml": "name: y\nsize: 2\nextra: true\n"}


def with_env(primary, **more):
    return {"config.yaml": primary, **ENV, **{key.replace("__", "/") + ".yaml": text for key, text in more.items()}}


case("defaults: group", with_env("defaults:\n  - env: x\na: 1"))
case("defaults: group slash name", with_env("defaults:\n  - env/x\na: 1"))
case("defaults: own values win without _self_", with_env("defaults:\n  - env: x\nenv:\n  size: 9"))
case("defaults: _self_ first", with_env("defaults:\n  - _self_\n  - env: x\nenv:\n  size: 9\n  new: 1"))
case("defaults: _self_ last", with_env("defaults:\n  - env: x\n  - _self_\nenv:\n  size: 9\n  new: 1"))
case("defaults: _self_ between", {"config.yaml": "defaults:\n  - a\n  - _self_\n  - b\nx: self\ny: self", "a.yaml": "x: a\ny: a\nz: a", "b.yaml": "y: b"})
case("defaults: _self_ twice", with_env("defaults:\n  - _self_\n  - env: x\n  - _self_"))
case("defaults: plain name", {"config.yaml": "defaults:\n  - base\nb: 2", "base.yaml": "a: 1\nb: 1"})
case("defaults: suffix", {"config.yaml": "defaults:\n  - base.yaml\n  - env: x.yaml\nb: 2", "base.yaml": "a: 1", **ENV})
case("defaults: package", with_env("defaults:\n  - env@train_env: x\n  - env@a.b.c: y"))
case("defaults: package on path", with_env("defaults:\n  - env/x@foo.bar"))
case("defaults: two packages of one group", with_env("defaults:\n  - env@env.train: x\n  - env@env.eval: y\nenv:\n  train: {size: 7}"))
case("defaults: global package", with_env("defaults:\n  - env@_global_: x"))
case("defaults: here package", with_env("defaults:\n  - env@_here_: x"))
case("defaults: null choice", with_env("defaults:\n  - env: null\na: 1"))
case("defaults: several choices", with_env("defaults:\n  - env: [x, y]\na: 1"))
case("defaults: several choices reversed", with_env("defaults:\n  - env: [y, x]"))
case("defaults: optional missing", with_env("defaults:\n  - optional env: nope\n  - optional nogroup: z\na: 1"))
case("defaults: optional present", with_env("defaults:\n  - optional env: x\na: 1"))
case("defaults: old optional", with_env("defaults:\n  - env: nope\n    optional: true\na: 1"))
case("defaults: missing config", with_env("defaults:\n  - env: nope"))
case("defaults: missing group", with_env("defaults:\n  - nope: x"))
case("defaults: missing plain", with_env("defaults:\n  - nope"))
case("defaults: missing choice", with_env("defaults:\n  - env: ???"))
case("defaults: missing choice given", with_env("defaults:\n  - env: ???"), "env=y")
case("defaults: not a list", with_env("defaults: env"))
case("defaults: mapping", with_env("defaults: {env: x}"))
case("defaults: number entry", with_env("defaults:\n  - 5"))
case("defaults: two keys", with_env("defaults:\n  - env: x\n    other: y"))
case("defaults: number choice", with_env("defaults:\n  - env: 5"))
case("defaults: self with package", with_env("defaults:\n  - _self_@foo\na: 1"))
case("defaults: empty", "defaults: []\na: 1")
case("defaults: null list", "defaults: null\na: 1")
case("defaults: nested relative group", {"config.yaml": "defaults:\n  - model: big\n", "model/big.yaml": "defaults:\n  - layer: conv\nn: 1", "model/layer/conv.yaml": "k: 3"})
case("defaults: nested relative name", {"config.yaml": "defaults:\n  - model: big\n", "model/big.yaml": "defaults:\n  - base\nn: 1", "model/base.yaml": "n: 0\nm: 2"})
case("defaults: nested absolute group", {"config.yaml": "defaults:\n  - model: big\n", "model/big.yaml": "defaults:\n  - /layer: conv\nn: 1", "layer/conv.yaml": "k: 3"})
case("defaults: nested absolute with package", {"config.yaml": "defaults:\n  - model: big\n", "model/big.yaml": "defaults:\n  - /layer@here: conv\n  - /layer@_global_.top: conv\nn: 1", "layer/conv.yaml": "k: 3"})
case("defaults: nested self order", {"config.yaml": "defaults:\n  - model: big\n", "model/big.yaml": "defaults:\n  - _self_\n  - base\nn: 1", "model/base.yaml": "n: 0\nm: 2"})
case("defaults: nested package chain", {"config.yaml": "defaults:\n  - model@outer: big\n", "model/big.yaml": "defaults:\n  - layer@inner: conv\nn: 1", "model/layer/conv.yaml": "k: ${..n}"})
case("defaults: deep group", {"config.yaml": "defaults:\n  - a/b/c: d\n  - a/b/c@p: d", "a/b/c/d.yaml": "v: 1"})
case("defaults: header global", {"config.yaml": "defaults:\n  - exp: one\na: 1", "exp/one.yaml": "# @package _global_\na: 2\nb: 3"})
case("defaults: header global after self", {"config.yaml": "defaults:\n  - _self_\n  - exp: one\na: 1", "exp/one.yaml": "# @package _global_\na: 2\nb: 3"})
case("defaults: header name", {"config.yaml": "defaults:\n  - exp: one\n", "exp/one.yaml": "# @package foo.bar\na: 2"})
case("defaults: header group keyword", {"config.yaml": "defaults:\n  - exp: one\n", "exp/one.yaml": "# @package _group_\na: 2"})
case("defaults: header group and name keywords", {"config.yaml": "defaults:\n  - exp: one\n", "exp/one.yaml": "# @package _group_._name_\na: 2"})
case("defaults: header after a comment is not seen", {"config.yaml": "defaults:\n  - exp: one\n", "exp/one.yaml": "# hello\n# @package _global_\na: 2"})
case("defaults: header after blank lines", {"config.yaml": "defaults:\n  - exp: one\n", "exp/one.yaml": "\n\n#@package _global_\na: 2"})
case("defaults: header too long", {"config.yaml": "defaults:\n  - exp: one\n", "exp/one.yaml": "# @package a b\na: 2"})
case("defaults: header without value", {"config.yaml": "defaults:\n  - exp: one\n", "exp/one.yaml": "# @package\na: 2"})
case("defaults: header and entry package", {"config.yaml": "defaults:\n  - exp@p: one\n", "exp/one.yaml": "# @package foo\na: 2"})
case("defaults: header of the primary", "# @package foo\na: 2")
case("defaults: primary in a directory", {"sub/config.yaml": "defaults:\n  - other\na: 1", "sub/other.yaml": "b: 2"}, config_name="sub/config")
case("defaults: name with suffix", "a: 1", config_name="config.yaml")
case("defaults: missing primary", "a: 1", config_name="confg")
case("defaults: list file at a package", {"config.yaml": "defaults:\n  - items: some\na: 1", "items/some.yaml": "- 1\n- 2"})
case("defaults: list file at the root", {"config.yaml": "defaults:\n  - some\na: 1", "some.yaml": "- 1\n- 2"})
case("defaults: experiment overrides a group", {"config.yaml": "defaults:\n  - env: x\n  - exp: one\n", "exp/one.yaml": "# @package _global_\ndefaults:\n  - override /env: y\nenv:\n  size: 5", **ENV})
case("defaults: override in the primary", {"config.yaml": "defaults:\n  - model: big\n  - override model/layer: pool\n", "model/big.yaml": "defaults:\n  - layer: conv\nn: 1", "model/layer/conv.yaml": "k: 3", "model/layer/pool.yaml": "p: 4"})
case("defaults: override with package", {"config.yaml": "defaults:\n  - model: big\n  - override model/layer@model.inner: pool\n", "model/big.yaml": "defaults:\n  - layer@inner: conv\nn: 1", "model/layer/conv.yaml": "k: 3", "model/layer/pool.yaml": "p: 4"})
case("defaults: override not last", with_env("defaults:\n  - override env: y\n  - env: x"))
case("defaults: override of nothing", with_env("defaults:\n  - override env: y\na: 1"))
case("defaults: group twice the same", with_env("defaults:\n  - env: x\n  - env: x"))
case("defaults: group twice different", with_env("defaults:\n  - env: x\n  - env: y"))
case("defaults: interpolation", {"config.yaml": "defaults:\n  - env: x\n  - opt: ${env}\n", "opt/x.yaml": "o: 1", **ENV})
case("defaults: interpolation in text", {"config.yaml": "defaults:\n  - env: x\n  - opt: ${env}_fast\n", "opt/x_fast.yaml": "o: 1", **ENV})
case("defaults: interpolation follows override", {"config.yaml": "defaults:\n  - env: x\n  - opt: ${env}\n", "opt/y.yaml": "o: 2", **ENV}, "env=y")
case("defaults: interpolation of two", {"config.yaml": "defaults:\n  - a: p\n  - b: q\n  - optional c: ${a}_${b}\n", "a/p.yaml": "v: 1", "b/q.yaml": "v: 2", "c/p_q.yaml": "v: 3"})
case("defaults: interpolation in a path", {"config.yaml": "defaults:\n  - env: x\n  - opt/${env}\n", "opt/x.yaml": "o: 1", **ENV})
case("defaults: interpolation of env", {"config.yaml": "defaults:\n  - env: ${oc.env:WHICH}\n", **ENV}, env={"WHICH": "y"})
case("defaults: legacy interpolation", {"config.yaml": "defaults:\n  - env: x\n  - opt: ${defaults.0.env}\n", "opt/x.yaml": "o: 1", **ENV})
case("defaults: interpolation missing", with_env("defaults:\n  - env: ${nope}"))
case("defaults: interpolation in options", with_env("defaults:\n  - env: ['${x}']"))
case("defaults: rename keeps the first part", with_env("defaults:\n  - env@a:b: x"))
case("defaults: group keyword in package", {"config.yaml": "defaults:\n  - env@foo._group_: x", **ENV})
case("defaults: name keyword in package", {"config.yaml": "defaults:\n  - env@foo._name_: x", **ENV})
case("defaults: cycle", {"config.yaml": "defaults:\n  - a\n", "a.yaml": "defaults:\n  - b\n", "b.yaml": "defaults:\n  - a\n"})
case("defaults: nested defaults key stays", "a:\n  defaults: [1]\nb: 2")
case("defaults: empty group file", {"config.yaml": "defaults:\n  - env: e\na: 1", "env/e.yaml": ""})
case("defaults: hydra override", with_env("defaults:\n  - env: x\n  - override hydra/job_logging: disabled\na: 1"))
case("defaults: hydra without override", with_env("defaults:\n  - env: x\n  - hydra/job_logging: disabled\na: 1"))
case("defaults: only hydra override", "defaults:\n  - override hydra/job_logging: disabled\na: 1")
case("defaults: hydra override first", with_env("defaults:\n  - override hydra/job_logging: disabled\n  - env: x\na: 1"))
case("defaults: hydra override before self", "defaults:\n  - override hydra/job_logging: disabled\n  - _self_\na: 1")
case("defaults: hydra block dropped", "hydra:\n  run:\n    dir: x\n  output_subdir: null\na: 1")
case("defaults: group with a dash and dots", {"config.yaml": "defaults:\n  - my-env: v1.5\n", "my-env/v1.5.yaml": "a: 1"})
case("defaults: dotted name", {"config.yaml": "defaults:\n  - base.v2\n", "base.v2.yaml": "a: 1"})
case("defaults: training strategy in a list", {"config.yaml": "defaults:\n  - env@env.train: x\n  - env@env.eval: x\n  - training_backend/fsdp@actor.fsdp_config\n  - _self_\nactor: {lr: 1e-4, fsdp_config: {strategy: fsdp2}}", "training_backend/fsdp.yaml": "strategy: fsdp\nshard: full", **ENV})
case("defaults: defaults from a nested file see the root", {"config.yaml": "defaults:\n  - env: z\nroot: 5", "env/z.yaml": "v: ${root}\nw: ${env.v}\nu: ${.v}"})

# --- search path ----------------------------------------------------------------------------------------------------

EXTRA = {"extra/env/z.yaml": "name: z\n", "extra/base.yaml": "from: extra\n", "extra/env/x.yaml": "name: hidden\n"}
case("searchpath: file", {"config.yaml": "hydra:\n  searchpath:\n    - file://${oc.env:ROOT}/extra\ndefaults:\n  - env: z\n  - base\n", **ENV, **EXTRA})
case("searchpath: plain", {"config.yaml": "hydra:\n  searchpath: ['${oc.env:ROOT}/extra']\ndefaults:\n  - env: z\n", **ENV, **EXTRA})
case("searchpath: main wins", {"config.yaml": "hydra:\n  searchpath: ['${oc.env:ROOT}/extra']\ndefaults:\n  - env: x\n", **ENV, **EXTRA})
case("searchpath: override", {"config.yaml": "defaults:\n  - env: z\n", **ENV, **EXTRA}, "hydra.searchpath=[{ROOT}/extra]")
case("searchpath: not a list", {"config.yaml": "hydra:\n  searchpath: foo\na: 1", **EXTRA})
case("searchpath: missing directory", {"config.yaml": "hydra:\n  searchpath: [/nope/nope]\na: 1"})
case("searchpath: missing env", {"config.yaml": "hydra:\n  searchpath: ['${oc.env:NOPE_NOPE}/x']\na: 1"})
case("searchpath: in a group", {"config.yaml": "defaults:\n  - g: h\na: 1", "g/h.yaml": "# @package _global_\nhydra:\n  searchpath: [/x]\n"})

# --- merging --------------------------------------------------------------------------------------------------------


def merged(name, base, top, *overrides, **options):
    case(name, {"config.yaml": "defaults:\n  - base\n  - top\n", "base.yaml": base, "top.yaml": top}, *overrides, **options)


merged("merge: deep", "a: {b: 1, c: {d: 2}}\ne: 5", "a: {c: {f: 3}}")
merged("merge: key order", "a: 1\nb: 2\nc: 3", "c: 4\nd: 5\na: 6")
merged("merge: lists replace", "a: [1, 2, 3]", "a: [4]")
merged("merge: list of mappings replaces", "a: [{b: 1}, {c: 2}]", "a: [{d: 3}]")
merged("merge: null over mapping", "a: {b: 1}", "a: null")
merged("merge: mapping over null", "a: null", "a: {b: 1}")
merged("merge: mapping over scalar", "a: 5", "a: {b: 1}")
merged("merge: scalar over mapping", "a: {b: 1}", "a: 5")
merged("merge: list over scalar", "a: 5", "a: [1]")
merged("merge: scalar over list", "a: [1]", "a: 5")
merged("merge: list over mapping", "a: {b: 1}", "a: [1]")
merged("merge: mapping over list", "a: [1]", "a: {b: 1}")
merged("merge: list over null", "a: null", "a: [1]")
merged("merge: missing does not overwrite", "a: 5\nb: {c: 1}\nd: [1]", "a: ???\nb: ???\nd: ???")
merged("merge: value over missing", "a: ???\nb: ???", "a: 5\nb: {c: 1}")
merged("merge: interpolation over mapping", "a: {b: 1}\nc: {d: 2}", "a: ${c}")
merged("merge: mapping over interpolation", "a: ${c}\nc: {d: 2, e: 3}", "a: {e: 4, f: 5}")
merged("merge: mapping over interpolation that is not there yet", "a: ${z}", "a: {e: 4}\nz: {d: 2}")
merged("merge: mapping over interpolation to scalar", "a: ${c}\nc: 1", "a: {e: 4}")
merged("merge: list over interpolation to list", "a: ${c}\nc: [1, 2]", "a: [3]")
merged("merge: list over interpolation to mapping", "a: ${c}\nc: {x: 1}", "a: [3]")
merged("merge: missing over interpolation to mapping", "a: ${c}\nc: {x: 1}", "a: ???\nc: {x: 2}")
merged("merge: interpolation over interpolation", "a: ${c}\nc: {x: 1}\nd: 5", "a: ${d}")
merged("merge: empty mapping over mapping", "a: {b: 1}", "a: {}")
merged("merge: int keys", "a: {1: x, 2: y}", "a: {1: z, 3: w}")
merged("merge: interpolation to itself grows", "a: {b: 1}", "c: ${a}\na: {d: 2}")
merged("merge: later file changes the target", "x: 1\ny: ${x}", "x: 2")

# --- overrides ------------------------------------------------------------------------------------------------------

TREE = "a: 1\nb: {c: 2, d: {e: 3}}\nl: [1, 2, {k: v}]\nn: null\ns: text\nm: ???\nr: ${b.c}\nt: ${b}\n"


def over(name, *overrides, config=TREE, **options):
    case(f"override: {name}", config, *overrides, **options)


over("int", "a=5")
over("types", "a=1e-3", "b.c=true", "b.d.e=null", "s=1_000", "n=-2.5")
over("strings", "a=foo", "b.c='x y'", 's="q"', "n=x/y:z@w", "b.d.e=a b c")
over("quotes keep text", "a='1'", "s='true'", 'n="null"', "b.c=''")
over("escapes", "a=x\\=y", "s=a\\,b", "n=\\[x\\]", "b.c=x\\ ")
over("quoted escapes", "a='it\\'s'", 's="say \\"x\\""', "n='back\\\\'", "b.c='a\\nb'")
over("empty", "a=")
over("list", "l=[1,2.5,[a,'b c'],true,null]")
over("list with spaces", "l=[ 1 , 2 ]")
over("empty list", "l=[]")
over("empty mapping merges to nothing", "b={}")
over("mapping merges", "b={c: 7}")
over("mapping adds nothing new", "b={new: 7}")
over("mapping forced", "++b={new: 7, d: {f: 1}}")
over("mapping added", "+b={new: 7}")
over("mapping over scalar", "a={x: 1}")
over("mapping over null", "n={x: {y: [1]}}")
over("mapping keys", "n={1: a, true: b, x y: c, 1.5: d}")
over("list over mapping", "b=[1]")
over("scalar over mapping", "b=5")
over("scalar over list", "l=5")
over("list index", "l.0=9", "l.2.k=w")
over("list index brackets are not keys", "l[0]=9")
over("list index out of range", "l.5=9")
over("list index not a number", "l.x=9")
over("interpolation", "a=${b.c}", "s=x_${a}")
over("nested interpolation needs quotes", "a=${b.${s}}")
over("nested interpolation in quotes", "a='${b.${s}}'", "s=c")
over("resolver", "a=${multiply:2,3}")
over("bad interpolation in quotes", "a='${'")
over("missing value given", "m=5")
over("unknown key", "nope=1")
over("unknown nested key", "b.nope=1")
over("unknown parent", "nope.x=1")
over("below a scalar", "a.x=1")
over("below null", "n.x=1")
over("below an interpolation", "t.c=9")
over("below an interpolation forced", "++t.c=9")
over("add", "+x=1", "+b.y=2", "+p.q.r=3")
over("add existing", "+a=2")
over("add over null", "+n=2")
over("add over missing", "+m=2")
over("add list over list", "+l=[5]")
over("add twice", "+x=1", "+x=2")
over("add below scalar", "+a.x=1")
over("add then change", "+x=1", "x=2")
over("force", "++a=2", "++x.y=3")
over("delete", "~a", "~b.d")
over("delete with value", "~a=1")
over("delete with float value", "~a=1.0")
over("delete with wrong value", "~a=2")
over("delete with text value", "~s=text")
over("delete missing", "~nope")
over("delete null", "~n")
over("delete nested missing", "~b.nope")
over("delete list item", "~l.0")
over("delete target of interpolation", "~b.c")
over("delete below an interpolation", "~t.d")
over("delete mapping with value", "~b.d={e: 3}")
over("order matters", "a=1", "a=2", "b.c=${a}")
over("sweep", "a=1,2")
over("sweep of strings", "s=x,y")
over("choice", "a=choice(1,2)")
over("range", "a=range(1,5)")
over("casts", "a=int('5')", "b.c=float(3)", "b.d.e=str(1.0)", "n=bool(0)", "s=str(true)", "l=int([1.5,'2',true])")
over("cast mapping", "n=str({a: 1, b: [2.5]})")
over("cast bad", "a=int(x)")
over("cast null", "a=int(null)")
over("cast bool text", "a=bool('true')")
over("cast named", "a=int(value=5)")
over("cast nested", "a=int(str(5))")
over("sort", "l=sort([3,1,2])")
over("sort backwards", "l=sort([3,1,2], reverse=true)")
over("sort named", "l=sort(list=[b,c,a])", "a=sort(reverse=true,list=[1,2.5,true])")
over("sort text", "l=sort([b,a,B,_])")
over("sort quoted text", "l=sort(['b','a'])")
over("sort quoted and plain", "l=sort(['b',a])")
over("sort numbers of all kinds", "l=sort([1.5,true,0,-2,1e3])")
over("sort keeps equals in order", "l=sort([1,true,1.0,0])", "b.c=sort([1,true,1.0,0],reverse=true)")
over("sort mixed", "l=sort([a,1])")
over("sort null", "l=sort([null,1])")
over("sort of one null", "l=sort([null])")
over("sort lists", "l=sort([[2,1],[1,5],[1]])")
over("sort maps", "l=sort([{a:1},{b:2}])")
over("sort nothing", "l=sort([])")
over("sort empty", "l=sort()")
over("sort one scalar", "a=sort(5)", "s=sort(x)")
over("sort one quoted", "a=sort('x y')")
over("sort one map", "b=sort({c: 1})")
over("sort of casts", "l=int(sort(['3','10']))", "a=sort([int('3'),int('1')])")
over("sort several is a sweep", "a=sort(3,1,2)")
over("sort several lists", "a=sort([1],[2])")
over("sort a choice is a sweep", "a=sort(choice(2,1))")
over("sort unknown argument", "l=sort([1],backwards=true)")
over("sort reverse by a word", "l=sort([1,2],reverse=x)")
over("sort reverse by a number", "l=sort([1,2],reverse=1)")
over("sort twice named", "l=sort([1,2],reverse=true,reverse=false)")
over("sort inside a list", "l=[sort([2,1]),3]")
over("unknown function", "a=foo(1)")
over("json_str", "a=json_str({a: 1})")
over("two equals", "a=b=c")
over("no equals", "a")
over("no key", "=5")
over("blank key", " a=5")
over("space before equals", "a =5")
over("space after equals", "a= 5")
over("unclosed list", "l=[1,2")
over("unclosed mapping", "b={c: 1")
over("unclosed quote", "a='x")
over("quote in the middle", "a=x'y")
over("quote after text", "a='x'y")
over("trailing comma", "l=[1,]")
over("colon in a list", "l=[a:b,http://x]")
over("special characters", "a=/x/y-z+w.$%*@?|", "s=\\x")
over("unicode", "a=é")
over("unicode quoted", "a='é世'")
over("numbers that are text", "a=007", "s=1.2.3", "n=12ab", "b.c=1e", "b.d.e=-x")
over("inf and nan names", "a=inf", "s=-INF")
over("dollar key", "+$x=1", "+y.$z=2")
over("dash key", "+x-y=1")
over("bracket key", "+x[0]=1")
over("key with a number", "+x.0.y=1")
over("parenthesis", "a=(1)")
over("hash", "a=x#y")
over("tilde value", "a=~")
over("semicolon", "a=x;y")
over("hydra settings are accepted", "hydra.run.dir=x", "hydra.job.chdir=false", "a=3")
over("package on a key that is no group", "a@b=1")
over("root package", "+x@_global_=1")

case("override: group", with_env("defaults:\n  - env: x\n"), "env=y")
case("override: group then key", with_env("defaults:\n  - env: x\n"), "env=y", "env.size=7")
case("override: key then group", with_env("defaults:\n  - env: x\n"), "env.extra=7", "env=y")
case("override: group missing", with_env("defaults:\n  - env: x\n"), "env=nope")
case("override: group to several", with_env("defaults:\n  - env: x\n"), "env=[x,y]")
case("override: group to null", with_env("defaults:\n  - env: x\n"), "env=null")
case("override: group to number", with_env("defaults:\n  - env: x\n"), "env=5")
case("override: group to mapping", with_env("defaults:\n  - env: x\n"), "env={size: 5}")
case("override: group with package", with_env("defaults:\n  - env@env.train: x\n  - env@env.eval: x\n"), "env@env.eval=y")
case("override: group needs its package", with_env("defaults:\n  - env@env.train: x\n"), "env=y")
case("override: group not in defaults", with_env("a: 1"), "env=y")
case("override: group added", with_env("a: 1"), "+env=y")
case("override: group added with package", with_env("a: 1"), "+env@foo.bar=y")
case("override: group added to global", with_env("a: 1\nsize: 0"), "+env@_global_=y")
case("override: group added to defaults", with_env("defaults:\n  - env: x\na: 1"), "+env@other=y")
case("override: group added twice", with_env("defaults:\n  - env: x\na: 1"), "+env=y")
case("override: group forced", with_env("a: 1"), "++env=y")
case("override: group deleted", with_env("defaults:\n  - env: x\na: 1"), "~env")
case("override: group deleted by name", with_env("defaults:\n  - env: x\na: 1"), "~env=x")
case("override: group deleted by wrong name", with_env("defaults:\n  - env: x\na: 1"), "~env=y")
case("override: group deleted with package", with_env("defaults:\n  - env@p: x\na: 1"), "~env@p")
case("override: group deleted but absent", with_env("a: 1"), "~env")
case("override: added group after own values", with_env("env:\n  size: 100\n  own: 1\n"), "+env=x")
case("override: nested group", {"config.yaml": "defaults:\n  - a/b: c\n", "a/b/c.yaml": "v: 1", "a/b/d.yaml": "v: 2"}, "a/b=d")
case("override: hydra group", "a: 1", "hydra/job_logging=disabled")
case("override: external wins over internal", {"config.yaml": "defaults:\n  - env: x\n  - exp: one\n", "exp/one.yaml": "# @package _global_\ndefaults:\n  - override /env: y\n", "env/z.yaml": "name: z", **ENV}, "env=z")
case("override: group sweep", with_env("defaults:\n  - env: x\n"), "env=x,y")
case("override: optional group", with_env("defaults:\n  - optional env: nope\n"), "env=x")
case("override: experiment", {"config.yaml": "defaults:\n  - env: x\nlr: 1", "exp/fast.yaml": "# @package _global_\nlr: 2\nenv: {size: 9}", **ENV}, "+exp=fast", "lr=3")

# --- as a training recipe looks ---------------------------------------------------------------------------------------

case(
    "recipe: everything together",
    {
        "config.yaml": """
defaults:
  - env/pick@env.train
  - env/pick@env.eval
  - model/cnn@actor.model
  - training_backend/fsdp@actor.fsdp_config
  - override hydra/job_logging: stdout

hydra:
  run:
    dir: .
  output_subdir: null
  searchpath:
    - file://${oc.env:RECIPES}/config/

cluster: {num_nodes: 1, component_placement: {"actor,rollout": all, env: 0-3}}
runner:
  logger: {log_path: "../results", backends: ["tensorboard"]}
  max_steps: -1
  resume_dir: null
algorithm:
  group_size: 8
  batch: ${multiply:${env.train.num},${algorithm.group_size}}
  lr: 1e-5
  clip: [0.2, 0.28]
env:
  train: {num: 64, seed: 0}
  eval: {num: 8, seed: "${env.train.seed}", video: {dir: "${runner.logger.log_path}/video/eval"}}
actor:
  micro: ${int_div:${algorithm.batch},4}
  model: {precision: "32", dtype: "${torch.dtype:bfloat16}", frozen: "${not:${.train_all}}", train_all: false}
  optim: {lr: "${algorithm.lr}", betas: [0.9, 0.95]}
""",
        "env/pick.yaml": "num: 4\nseed: 1\nmax_steps: 80\nauto_reset: True\nvideo: {save: '${..save_all}', dir: x}\nsave_all: off",
        "model/cnn.yaml": "precision: bf16\nhidden: 256\n",
        "extra/config/training_backend/fsdp.yaml": "strategy: fsdp\nshard: full_shard\n",
    },
    "algorithm.group_size=4",
    "env.eval.num=2",
    "+actor.tag=a/b",
    env={"RECIPES": "{ROOT}/extra"},
)
