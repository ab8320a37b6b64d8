"""The Go module, without dependencies; its packages run the native library (cgo) or the WebAssembly module."""

from __future__ import annotations

from builder.base.escape import escape_comment, go_string
from builder.release.bindings.binding_files import (
    SHOWN,
    BindingSources,
    Files,
    describe_tensor,
    fill_template,
    format_image_reader,
    format_row_count,
    format_usage,
    list_plain_outputs,
    mention_image,
    wrap_items,
)
from builder.release.bindings.describe import BindingDescription, BindingTensor, OutputHead, to_camel_case

TYPES = {
    "bool": "uint8", "int8": "int8", "uint8": "uint8", "int16": "int16", "uint16": "uint16", "int32": "int32",
    "uint32": "uint32", "int64": "int64", "uint64": "uint64", "float32": "float32", "float64": "float64",
}  # fmt: skip


def make_go_files(description: BindingDescription, parts: BindingSources) -> Files:
    """Return ``model.go``, ``native/`` with the libraries, ``wasm/`` and ``cmd/predict``."""
    archive = {"native/libmodel.a": parts.archive} if parts.archive else {}
    module = {"wasm/model.wasm": parts.wasm / "model.wasm"} if parts.wasm else {}
    embed = {"wasm/embed.go": fill_template("go/embed.go")} if parts.wasm else {}
    return {
        "go.mod": fill_template("go/go.mod", module=module_path(description)),
        "model.go": format_go_types(description),
        "native/native.go": format_go_native(description),
        "native/model.h": parts.header,
        "native/libmodel.so": parts.library,
        "wasm/wasm.go": format_go_wasm(description),
        "cmd/predict/main.go": format_go_example(description),
        "model.json": parts.description,
        **archive,
        **module,
        **embed,
    }


def package_name(description: BindingDescription) -> str:
    """Return the name of the Go package, which has no underscores."""
    return description.package.replace("_", "")


def module_path(description: BindingDescription) -> str:
    """Return a path with a dot in it; without one, it might be a package of Go's own library."""
    return f"coldforge.model/{package_name(description)}"


def format_go_types(description: BindingDescription) -> str:
    """Return the text of model.go."""
    feeds, fetches = description.feeds, description.fetches

    def members(tensors: tuple[BindingTensor, ...]) -> str:
        return "\n".join(f"\t// {describe_tensor(description, t)}\n\t{_format_field(t)}" for t in tensors)

    def zeros(tensors: tuple[BindingTensor, ...]) -> str:
        return "\n".join(
            f"\tf.{to_camel_case(t.identifier)} = make([]{TYPES[t.spec.dtype]}, {t.spec.elements})" for t in tensors
        )

    imports = ["fmt", "sort"] if description.classifications else ["fmt"]
    return fill_template(
        "go/model.go",
        package=package_name(description),
        title=escape_comment(description.title),
        imports="import (\n" + "".join(f'\t"{name}"\n' for name in imports) + ")\n",
        name=go_string(description.name),
        version=go_string(description.version),
        batch=description.batch,
        feeds=members(feeds),
        fetches=members(fetches),
        feed_zeros=zeros(feeds),
        fetch_zeros=zeros(fetches),
        checks="\n".join(
            f"\tif err := check({go_string(f.spec.name)}, len(f.{to_camel_case(f.identifier)}), {f.spec.elements}); "
            "err != nil {\n\t\treturn err\n\t}"
            for f in feeds
        ),
        trim=_format_trim_code(description.dynamic),
        ranks="".join([*map(_format_rank_code, description.classifications), _HELPER])
        if description.classifications
        else "",
    )


def _format_trim_code(dynamic: tuple[BindingTensor, ...]) -> str:
    if not dynamic:
        return ""
    lines = "".join(
        f"\tf.{to_camel_case(fetch.identifier)} = there(f.{to_camel_case(fetch.identifier)}, "
        f"f.{to_camel_case(fetch.sized_by)})\n"
        for fetch in dynamic
    )
    return f"""
// Trim leaves of each fetch what is there, where the data decides how much that is. Run has done so.
func Trim(f *Fetches) {{
{lines}}}

func there[T any](numbers []T, shape []int32) []T {{
\tcount := 1
\tfor _, size := range shape {{
\t\tcount *= int(size)
\t}}
\treturn numbers[:count]
}}
"""


def _format_trim_call(description: BindingDescription) -> str:
    return f"\t{package_name(description)}.Trim(&fetches)\n" if description.dynamic else ""


def _format_field(tensor: BindingTensor) -> str:
    return f"{to_camel_case(tensor.identifier)} []{TYPES[tensor.spec.dtype]}"


def _format_rank_code(head: OutputHead) -> str:
    name = f"Labels{to_camel_case(head.identifier)}"
    labels = wrap_items([go_string(label) for label in head.labels], 0).replace("\n", "\n\t")
    item, first = ("", "0") if head.items == 1 else ("item int", f"item*{head.length}")
    last = str(head.length) if head.items == 1 else f"(item+1)*{head.length}"
    rank = f"Rank{to_camel_case(head.identifier)}"
    return f"""
// {name} are the labels of output {go_string(escape_comment(head.name))}, which is {format_row_count(head)}.
var {name} = [...]string{{
\t{labels}
}}

// {rank} gives the likeliest classes of output {go_string(escape_comment(head.name))}, the best first.
func (f *Fetches) {rank}({item}) []Class {{
\treturn rank(f.{to_camel_case(head.fetch.identifier)}[{first}:{last}], {name}[:], {head.top})
}}
"""


_HELPER = """
// Class is a label and its probability; Index is the label's place in the model's order.
type Class struct {
\tIndex       int
\tLabel       string
\tProbability float64
}

type number interface {
\t~int8 | ~uint8 | ~int16 | ~uint16 | ~int32 | ~uint32 | ~int64 | ~uint64 | ~float32 | ~float64
}

// rank keeps equal ones in the model's order; NaN, which is not equal to itself, comes last.
func rank[T number](values []T, labels []string, top int) []Class {
\tclasses := make([]Class, len(values))
\tfor i, value := range values {
\t\tclasses[i] = Class{i, labels[i], float64(value)}
\t}
\tsort.SliceStable(classes, func(i, j int) bool {
\t\ta, b := classes[i].Probability, classes[j].Probability
\t\treturn a > b || (a == a && b != b)
\t})
\treturn classes[:top]
}
"""


def format_go_native(description: BindingDescription) -> str:
    """Return the text of native/native.go."""
    feeds, fetches = description.feeds, description.fetches
    parameters = [f"const void *feed_{f.identifier}" for f in feeds]
    parameters += [f"void *fetch_{f.identifier}" for f in fetches]
    pointers = [f"pointer(feeds.{to_camel_case(f.identifier)})" for f in feeds]
    pointers += [f"pointer(fetches.{to_camel_case(f.identifier)})" for f in fetches]
    return fill_template(
        "go/native.go",
        package=package_name(description),
        module=module_path(description),
        title=escape_comment(description.title),
        parameters=", ".join(parameters),
        feed_rows=", ".join(f"{{feed_{f.identifier}, {f.spec.size}u}}" for f in feeds),
        fetch_rows=", ".join(f"{{fetch_{f.identifier}, {f.spec.size}u}}" for f in fetches),
        feed_count=len(feeds),
        fetch_count=len(fetches),
        pointers="\n".join(f"\t\t{pointer}," for pointer in pointers),
        trim=_format_trim_call(description),
    )


def format_go_wasm(description: BindingDescription) -> str:
    """Return the text of wasm/wasm.go."""
    feeds, fetches = description.feeds, description.fetches
    return fill_template(
        "go/wasm.go",
        package=package_name(description),
        module=module_path(description),
        title=escape_comment(description.title),
        feed_sizes=", ".join(str(f.spec.size) for f in feeds),
        fetch_sizes=", ".join(str(f.spec.size) for f in fetches),
        feed_values=", ".join(f"feeds.{to_camel_case(f.identifier)}" for f in feeds),
        fetch_values=", ".join(f"fetches.{to_camel_case(f.identifier)}" for f in fetches),
        trim=_format_trim_call(description),
    )


def format_go_example(description: BindingDescription) -> str:
    """Return the text of cmd/predict/main.go."""
    package, picture = package_name(description), description.picture
    reads = [
        f"\tif err := readFeed(paths[{number}], {go_string(f.spec.name)}, feeds.{to_camel_case(f.identifier)}, "
        f"{str(description.takes_image(f)).lower()}); err != nil {{\n\t\treturn err\n\t}}"
        for number, f in enumerate(description.feeds)
    ]
    imports = ["bytes", "encoding/binary", "fmt", "os"]
    imports += ["errors", "image", "image/color", "image/jpeg", "image/png", "regexp"] if picture else []
    imports += ["strings"] if description.classifications else []
    return fill_template(
        "go/main.go",
        package=package,
        module=module_path(description),
        title=escape_comment(description.title),
        arguments=format_usage(description),
        or_picture=mention_image(description),
        picture_or=", or from a picture" if picture else "",
        imports="\n".join(f'\t{_FOR_EFFECT.get(name, "")}"{name}"' for name in sorted(imports)),
        argument_count=len(description.feeds) + 1,
        reads="\n".join(reads),
        prints="\n".join(
            [
                *map(_format_print_classes, description.classifications),
                *(_format_print_code(*p) for p in list_plain_outputs(description)),
            ]
        ),
        printers=_PRINTER.replace("PACKAGE", package) if description.classifications else "",
        from_picture=_FROM_PICTURE if picture else "",
        pixels=format_image_reader(description, "go/pixels.go", go_pixel=_PIXEL[picture.mode] if picture else ""),
    )


_FOR_EFFECT = {"image/jpeg": "_ ", "image/png": "_ "}
"""Imports that only register a decoder with the package ``image``."""

_PIXEL = {
    "grey": "pixels = append(pixels, color.GrayModel.Convert(picture.At(x, y)).(color.Gray).Y)",
    "rgb": "c := color.NRGBAModel.Convert(picture.At(x, y)).(color.NRGBA)\n"
    "\t\t\tpixels = append(pixels, c.R, c.G, c.B)",
}
"""Conversions to pixels as Pillow has them: the same weights of the colours, and no premultiplied alpha."""


_FROM_PICTURE = """\
\tif picture && len(content) != size {
\t\tif content, err = pixels(content); err != nil {
\t\t\treturn fmt.Errorf("%s: %w", path, err)
\t\t}
\t}
"""

_PRINTER = """
func printClasses(name string, classes []PACKAGE.Class) {
\tvar shown []string
\tfor _, class := range classes {
\t\tshown = append(shown, fmt.Sprintf("%s %.6f", class.Label, class.Probability))
\t}
\tfmt.Printf("%s: %s\\n", name, strings.Join(shown, ", "))
}
"""


def _format_print_classes(head: OutputHead) -> str:
    call = f"printClasses({go_string(head.name)}, fetches.Rank{to_camel_case(head.identifier)}"
    if head.items == 1:
        return f"\t{call}())"
    return f"\tfor item := 0; item < {head.items}; item++ {{\n\t\t{call}(item))\n\t}}"


def _format_print_code(name: str, fetch: BindingTensor) -> str:
    values, shown = f"fetches.{to_camel_case(fetch.identifier)}", min(SHOWN, fetch.spec.elements)
    number = " %.6f" if fetch.spec.dtype.startswith("float") else " %d"
    more = " ..." if fetch.spec.elements > SHOWN and not fetch.sized_by else ""
    loop = f"\tfor _, value := range {values}[:{shown}] {{\n"
    if fetch.sized_by:
        loop = f"\tfor i, value := range {values} {{\n\t\tif i == {SHOWN} {{\n\t\t\tbreak\n\t\t}}\n"
    return (
        f'\tfmt.Print({go_string(name + ":")})\n{loop}\t\tfmt.Printf("{number}", value)\n\t}}\n\tfmt.Println("{more}")'
    )
