"""The Rust crate, without dependencies; it links libmodel, statically or not, or loads it at run time."""

from __future__ import annotations

from builder.base.escape import escape_comment, rust_string, toml_string
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
from builder.release.bindings.describe import BindingDescription, BindingTensor, OutputHead

TYPES = {
    "bool": "u8", "int8": "i8", "uint8": "u8", "int16": "i16", "uint16": "u16", "int32": "i32", "uint32": "u32",
    "int64": "i64", "uint64": "u64", "float32": "f32", "float64": "f64",
}  # fmt: skip


def make_rust_files(description: BindingDescription, parts: BindingSources) -> Files:
    """Return ``Cargo.toml``, ``build.rs``, ``src/``, ``examples/predict.rs`` and the libraries in ``native/``."""
    model, about_crate = description.package, f"{description.title}, compiled by coldforge"
    archive = {"native/libmodel.a": parts.archive} if parts.archive else {}
    return {
        "Cargo.toml": fill_template("rust/Cargo.toml", model=model, about=toml_string(about_crate)),
        "build.rs": fill_template("rust/build.rs"),
        "src/lib.rs": format_rust_library(description),
        "src/native.rs": fill_template("rust/native.rs"),
        "examples/predict.rs": format_rust_example(description),
        **_make_image_crate(description),
        "native/libmodel.so": parts.library,
        "native/model.h": parts.header,
        "native/model.json": parts.description,
        **archive,
    }


def _make_image_crate(description: BindingDescription) -> Files:
    """Return the example as a crate of its own, which may have dependencies; empty unless there are images to read."""
    if description.picture is None:
        return {}
    return {
        "pictures/Cargo.toml": fill_template("rust/pictures.toml", model=description.package),
        "pictures/build.rs": fill_template("rust/pictures.rs"),
    }


def format_rust_library(description: BindingDescription) -> str:
    feeds, fetches = description.feeds, description.fetches

    def shapes(tensors: tuple[BindingTensor, ...]) -> str:
        return "\n".join(
            f"    /// The shape of `{t.identifier}`.\n"
            f"    pub const SHAPE_{t.identifier.upper()}: [usize; {len(t.spec.shape)}] = {list(t.spec.shape)};\n"
            f"    /// The numbers in `{t.identifier}`.\n"
            f"    pub const LEN_{t.identifier.upper()}: usize = {t.spec.elements};"
            for t in tensors
        )

    return fill_template(
        "rust/lib.rs",
        title=escape_comment(description.title),
        model=description.package,
        name=rust_string(description.name),
        version=rust_string(description.version),
        batch=description.batch,
        doc_feeds=", ".join(f"{f.identifier}: &[0; {f.spec.elements}]" for f in feeds),
        feeds="\n".join(
            f"    /// {describe_tensor(description, f)}.\n    pub {f.identifier}: &'a [{TYPES[f.spec.dtype]}],"
            for f in feeds
        ),
        fetches="\n".join(
            f"    /// {describe_tensor(description, f)}.\n    pub {f.identifier}: Vec<{TYPES[f.spec.dtype]}>,"
            for f in fetches
        ),
        feed_shapes=shapes(feeds),
        fetch_shapes=shapes(fetches),
        fetch_zeros="\n".join(
            f"            {f.identifier}: vec![{_format_zero(f)}; {f.spec.elements}]," for f in fetches
        ),
        feed_rows="\n".join(f"            native::feed(feeds.{f.identifier})," for f in feeds),
        fetch_rows="\n".join(f"            native::fetch(&mut fetches.{f.identifier})," for f in fetches),
        room="".join(map(_format_resize_call, description.dynamic)),
        rows_name="raw" if description.dynamic else "fetches",
        run_end="?;\n" + "".join(map(_format_trim_call, description.dynamic)) + "        Ok(())"
        if description.dynamic
        else "",
        ranks="".join(_format_rank_code(head) for head in description.classifications),
        helper=_HELPER if description.classifications else "",
    )


def _format_resize_call(fetch: BindingTensor) -> str:
    length = f"Fetches::LEN_{fetch.identifier.upper()}"
    return f"        fetches.{fetch.identifier}.resize({length}, {_format_zero(fetch)});\n"


def _format_trim_call(fetch: BindingTensor) -> str:
    count = f"fetches.{fetch.sized_by}.iter().map(|&size| size as usize).product()"
    return f"        fetches.{fetch.identifier}.truncate({count});\n"


def _format_zero(tensor: BindingTensor) -> str:
    return f"0{'.0' if tensor.spec.dtype.startswith('float') else ''}{TYPES[tensor.spec.dtype]}"


def _format_rank_code(head: OutputHead) -> str:
    constant = f"LABELS_{head.identifier.upper()}"
    labels = wrap_items([rust_string(label) for label in head.labels], 8)
    item, start = ("", "0") if head.items == 1 else (", item: usize", f"item * {head.length}")
    end = str(head.length) if head.items == 1 else f"(item + 1) * {head.length}"
    return f"""

    /// The labels of output `{escape_comment(head.name)}`, which is {format_row_count(head)}.
    pub const {constant}: [&'static str; {head.length}] = [
{labels}
    ];

    /// The likeliest classes of output `{escape_comment(head.name)}`, the best first.
    pub fn rank_{head.identifier}(&self{item}) -> Vec<Class> {{
        rank(&self.{head.fetch.identifier}[{start}..{end}], &Self::{constant}, {head.top}, |value| value as f64)
    }}"""


_HELPER = """
/// Equal ones stay in the model's order, and NaN comes last.
fn rank<T: Copy>(values: &[T], labels: &[&'static str], top: usize, number: fn(T) -> f64) -> Vec<Class> {
    let class = |(index, (&value, &label))| Class { index, label, probability: number(value) };
    let mut classes: Vec<Class> = values.iter().zip(labels).enumerate().map(class).collect();
    let order = |p: f64| if p.is_nan() { f64::NEG_INFINITY } else { p };
    classes.sort_by(|a, b| order(b.probability).total_cmp(&order(a.probability)));
    classes.truncate(top);
    classes
}
"""


def format_rust_example(description: BindingDescription) -> str:
    feeds, picture = description.feeds, description.picture
    reads = [
        f"    let {f.identifier} = read_feed(&paths[{number}], {rust_string(f.spec.name)}, "
        f"Feeds::LEN_{f.identifier.upper()}, {_format_zero(f)}, {str(description.takes_image(f)).lower()})?;"
        for number, f in enumerate(feeds)
    ]
    prints = []
    for head in description.classifications:
        for item in ["0"] if head.items == 1 else ["item"]:
            call = f"print_classes({rust_string(head.name)}, &fetches.rank_{head.identifier}"
            if head.items == 1:
                prints.append(f"    {call}());")
            else:
                prints.append(f"    for {item} in 0..{head.items} {{\n        {call}({item}));\n    }}")
    prints += [_format_print_code(name, fetch) for name, fetch in list_plain_outputs(description)]
    return fill_template(
        "rust/predict.rs",
        title=escape_comment(description.title),
        model=description.package,
        arguments=format_usage(description),
        or_picture=mention_image(description),
        picture_or=", or the pixels of a picture" if picture else "",
        imports="Class, " if description.classifications else "",
        feed_count=len(feeds),
        reads="\n".join(reads),
        feeds=", ".join(f"{f.identifier}: &{f.identifier}" for f in feeds),
        prints="\n".join(prints),
        printers=_PRINT_CLASSES if description.classifications else "",
        content=_PICTURE_CONTENT if picture else "    let _ = picture;\n    let content = file;",
        pixels=format_image_reader(description, "rust/pixels.rs", decode=_DECODE[picture.mode] if picture else ""),
    )


_PRINT_CLASSES = """
fn print_classes(name: &str, classes: &[Class]) {
    let shown: Vec<String> = classes.iter().map(|c| format!("{} {:.6}", c.label, c.probability)).collect();
    println!("{name}: {}", shown.join(", "));
}
"""

_PICTURE_CONTENT = """\
    let content = if picture && file.len() != size {
        pixels(&file).map_err(|why| format!("{path}: {why}"))?
    } else {
        file
    };"""

_DECODE = {
    "rgb": "    Ok(picture.into_rgb8().into_raw())",
    "grey": """\
    if !picture.color().has_color() {
        return Ok(picture.into_luma8().into_raw());
    }
    let grey = |c: &[u8]| (c[0] as u32 * 19595 + c[1] as u32 * 38470 + c[2] as u32 * 7471 + 32768) >> 16;
    Ok(picture.into_rgb8().chunks(3).map(|colours| grey(colours) as u8).collect())""",
}


def _format_print_code(name: str, fetch: BindingTensor) -> str:
    number = "{:.6}" if fetch.spec.dtype.startswith("float") else "{}"
    more = " ..." if fetch.spec.elements > SHOWN and not fetch.sized_by else ""
    return (
        f"    let shown: Vec<String> = fetches.{fetch.identifier}.iter().take({SHOWN})"
        f'.map(|v| format!("{number}", v)).collect();\n'
        f'    println!("{{}}: {{}}{more}", {rust_string(name)}, shown.join(" "));'
    )
