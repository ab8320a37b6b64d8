//! Runs brightness 7 on files and prints its answer: `cargo run --release --example predict -- photo.ppm`.
//!
//! A file holds a feed's raw bytes, or a picture of 8x8 as binary PPM or PGM. With `--library FILE`
//! first, the model is that in FILE instead of the one this program is linked with.

use std::process::ExitCode;

use brightness::{Class, Feeds, Fetches, Model};

fn main() -> ExitCode {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let library = (arguments.len() > 1 && arguments[0] == "--library").then(|| arguments.drain(..2).nth(1).unwrap());
    if arguments.len() != 1 {
        eprintln!("usage: predict [--library FILE] photo.ppm");
        return ExitCode::from(2);
    }
    match predict(&arguments, library) {
        Ok(fetches) => {
            print(&fetches);
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("predict: {why}");
            ExitCode::FAILURE
        }
    }
}

fn predict(paths: &[String], library: Option<String>) -> Result<Fetches, String> {
    let image = read_feed(&paths[0], "image", Feeds::LEN_IMAGE, 0u8, true)?;
    let feeds = Feeds { image: &image };
    let model = match library {
        Some(path) => Model::load(path, 0),
        None => Model::open(0),
    };
    model.and_then(|mut model| model.run(&feeds)).map_err(|why| why.to_string())
}

fn print(fetches: &Fetches) {
    print_classes("tone", &fetches.rank_tone());
    let shown: Vec<String> = fetches.level.iter().take(8).map(|v| format!("{:.6}", v)).collect();
    println!("{}: {}", "level", shown.join(" "));
    let shown: Vec<String> = fetches.pixels.iter().take(8).map(|v| format!("{}", v)).collect();
    println!("{}: {} ...", "pixels", shown.join(" "));
}

fn print_classes(name: &str, classes: &[Class]) {
    let shown: Vec<String> = classes.iter().map(|c| format!("{} {:.6}", c.label, c.probability)).collect();
    println!("{name}: {}", shown.join(", "));
}

/// The numbers in a file of exactly that many, or the pixels of a picture.
fn read_feed<T: Copy>(path: &str, name: &str, length: usize, zero: T, picture: bool) -> Result<Vec<T>, String> {
    let file = std::fs::read(path).map_err(|why| format!("{path}: {why}"))?;
    let size = length * std::mem::size_of::<T>();
    let content = if picture && file.len() != size {
        pixels(&file).map_err(|why| format!("{path}: {why}"))?
    } else {
        file
    };
    if content.len() != size {
        return Err(format!("{path}: {} bytes; feed {name} takes {size}", content.len()));
    }
    let mut values = vec![zero; length];
    // SAFETY: T is a number, for which any bytes are a value, and both have `size` bytes.
    unsafe { std::ptr::copy_nonoverlapping(content.as_ptr(), values.as_mut_ptr().cast(), size) };
    Ok(values)
}

/// The pixels of a picture, which must have the model's size; a binary PPM (P6) or PGM (P5) its colours, too.
fn pixels(file: &[u8]) -> Result<Vec<u8>, String> {
    let mode = match file {
        [b'P', b'5', ..] => "grey",
        [b'P', b'6', ..] => "rgb",
        _ => return decoded(file),
    };
    let mut at = 2;
    let mut number = || {
        while at < file.len() && (file[at] == b'#' || file[at].is_ascii_whitespace()) {
            if file[at] == b'#' {
                at += file[at..].iter().take_while(|&&byte| byte != b'\n').count();
            } else {
                at += 1;
            }
        }
        let digits = file[at..].iter().take(6).take_while(|byte| byte.is_ascii_digit()).count();
        at += digits;
        std::str::from_utf8(&file[at - digits..at]).ok()?.parse::<usize>().ok()
    };
    let (width, height, most) = match (number(), number(), number()) {
        (Some(width), Some(height), Some(most)) => (width, height, most),
        _ => (0, 0, 0),
    };
    if most != 255 || at == file.len() {
        return Err("is no PPM or PGM of 8 bits".into());
    }
    require_fit(width, height, mode)?;
    Ok(file[at + 1..].to_vec()) // one space ends the header
}

fn require_fit(width: usize, height: usize, mode: &str) -> Result<(), String> {
    if (width, height, mode) == (8, 8, "rgb") {
        return Ok(());
    }
    Err(format!("the picture is {width}x{height} {mode}; the model takes 8x8 rgb"))
}

/// JPEG and PNG, in the model's colours; opacity is left out. Grey is weighed as ITU-R BT.601 has it.
#[cfg(pictures)]
fn decoded(file: &[u8]) -> Result<Vec<u8>, String> {
    let picture = image::load_from_memory(file)
        .map_err(|why| format!("is no binary PPM or PGM, and image cannot read it: {why}"))?;
    require_fit(picture.width() as usize, picture.height() as usize, "rgb")?;
    Ok(picture.into_rgb8().into_raw())
}

/// The crate of this example in pictures/ reads them.
#[cfg(not(pictures))]
fn decoded(_: &[u8]) -> Result<Vec<u8>, String> {
    Err("is no binary PPM or PGM; the example in pictures/ reads JPEG and PNG, too".into())
}
