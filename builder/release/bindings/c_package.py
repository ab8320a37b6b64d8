"""The C package: a header with the model's types, an example and a Makefile, beside libmodel.so and libmodel.a."""

from __future__ import annotations

from builder.base.escape import c_literal, escape_comment
from builder.compiler.emit.header import C_TYPES
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


def make_c_files(description: BindingDescription, parts: BindingSources) -> Files:
    """Return ``<model>.h``, ``predict.c``, ``Makefile``, ``model.h`` and the libraries."""
    libraries = {"libmodel.so": parts.library} | ({"libmodel.a": parts.archive} if parts.archive else {})
    model = description.package
    return {
        f"{model}.h": format_c_header(description),
        "predict.c": format_c_example(description),
        "Makefile": _format_makefile(description),
        "model.h": parts.header,
        "model.json": parts.description,
        **libraries,
    }


def _format_makefile(description: BindingDescription) -> str:
    picture = description.picture is not None
    return fill_template(
        "c/Makefile",
        model=description.package,
        name=description.name,
        pictures=_PICTURES if picture else "",
        flags=" $(PICTURE_FLAGS)" if picture else "",
        libs=" $(PICTURE_LIBS)" if picture else "",
    )


def format_c_header(description: BindingDescription) -> str:
    def members(tensors: tuple[BindingTensor, ...]) -> str:
        return "\n".join(
            f"    /* {describe_tensor(description, t)} */\n    {C_TYPES[t.spec.dtype]} "
            f"{t.identifier}[{max(t.spec.elements, 1)}];"
            for t in tensors
        )

    def pointers(kind: str, tensors: tuple[BindingTensor, ...]) -> str:
        return "\n".join(f"        {{{kind}->{t.identifier}, {t.spec.size}u}}," for t in tensors)

    return fill_template(
        "c/model.h",
        title=escape_comment(description.title),
        model=description.package,
        MODEL=description.package.upper(),
        feeds=members(description.feeds),
        fetches=members(description.fetches),
        feed_rows=pointers("feeds", description.feeds),
        fetch_rows=pointers("fetches", description.fetches),
        feed_count=len(description.feeds),
        fetch_count=len(description.fetches),
        heads="".join(_format_output_code(description, head) for head in description.classifications),
    )


def _format_output_code(description: BindingDescription, head: OutputHead) -> str:
    return fill_template(
        "c/head.h",
        model=description.package,
        MODEL=description.package.upper(),
        name=escape_comment(head.name),
        head=head.identifier,
        HEAD=head.identifier.upper(),
        fetch=head.fetch.identifier,
        items=head.items,
        rows=format_row_count(head),
        length=head.length,
        top=head.top,
        labels=wrap_items([c_literal(label) for label in head.labels], 4),
    )


def format_c_example(description: BindingDescription) -> str:
    model, picture = description.package, description.picture
    reads = [
        f"    read_feed(arguments[{number}], {c_literal(feed.spec.name)}, feeds->{feed.identifier}, "
        f"{feed.spec.size}u, {int(description.takes_image(feed))});"
        for number, feed in enumerate(description.feeds, 1)
    ]
    prints = [
        f"    for (size_t item = 0; item < {model.upper()}_ITEMS_{head.identifier.upper()}; item++) {{\n"
        f"        {model}_class classes[{model.upper()}_TOP_{head.identifier.upper()}];\n"
        f"        {model}_rank_{head.identifier}(fetches, item, classes);\n"
        f"        print_classes({c_literal(head.name)}, classes, {model.upper()}_TOP_{head.identifier.upper()});\n"
        "    }"
        for head in description.classifications
    ]
    prints += [_format_print_code(name, fetch) for name, fetch in list_plain_outputs(description)]
    return fill_template(
        "c/predict.c",
        arguments=format_usage(description),
        title=escape_comment(description.title),
        or_picture=mention_image(description),
        model=model,
        picture=format_image_reader(description, "c/picture.c"),
        from_picture=_FROM_PICTURE if picture else "    (void)is_picture;\n",
        argument_count=len(description.feeds) + 1,
        reads="\n".join(reads),
        printers=_PRINT_CLASSES.replace("MODEL", model) if description.classifications else "",
        prints="\n".join(prints),
    )


_PICTURES = """
# The example reads JPEG and PNG, too, where pkg-config finds libjpeg and libpng; `make PICTURES=` leaves them out.
PICTURES ?= $(shell for name in libjpeg libpng; do pkg-config --exists $$name 2> /dev/null && echo $$name; done)
PICTURE_FLAGS = $(if $(PICTURES),$(shell pkg-config --cflags $(PICTURES)))
PICTURE_FLAGS += $(if $(filter libjpeg,$(PICTURES)),-DWITH_JPEG) $(if $(filter libpng,$(PICTURES)),-DWITH_PNG)
PICTURE_LIBS = $(if $(PICTURES),$(shell pkg-config --libs $(PICTURES)))
"""

_FROM_PICTURE = """\
    if (is_picture && length != size) {
        unsigned char *pixels = pixels_of(path, data, &length);
        free(data);
        data = pixels;
    }
"""

_PRINT_CLASSES = """
static void print_classes(const char *name, const MODEL_class *classes, size_t count) {
    printf("%s:", name);
    for (size_t i = 0; i < count; i++) printf("%s %s %.6f", i ? "," : "", classes[i].label, classes[i].probability);
    printf("\\n");
}
"""


def _format_print_code(name: str, fetch: BindingTensor) -> str:
    shown = str(min(fetch.spec.elements, SHOWN))
    if fetch.spec.dtype.startswith("float"):
        number = '" %.6f", (double)'
    else:
        number = '" %llu", (unsigned long long)' if fetch.spec.dtype.startswith("u") else '" %lld", (long long)'
    more, before = " ..." if fetch.spec.elements > SHOWN else "", ""
    if fetch.sized_by:
        sizes = " * ".join(f"(size_t)fetches->{fetch.sized_by}[{at}]" for at in range(len(fetch.spec.shape)))
        shown, more = f"{fetch.identifier}_count && i < {SHOWN}", ""
        before = f"    const size_t {fetch.identifier}_count = {sizes};\n"
    return (
        f"{before}    fputs({c_literal(name + ':')}, stdout);\n"
        f"    for (size_t i = 0; i < {shown}; i++) printf({number}fetches->{fetch.identifier}[i]);\n"
        f'    puts("{more}");'
    )
