//! brightness 7, compiled by coldforge.
//!
//! ```no_run
//! use brightness::{Feeds, Model};
//!
//! let mut model = Model::open(0)?;
//! let fetches = model.run(&Feeds { image: &[0; 192] })?;
//! # Ok::<(), brightness::Error>(())
//! ```
//!
//! Tensors are dense, row-major slices; a bool is a byte, 0 or 1.

mod native;

pub use native::Error;

/// The model's name.
pub const NAME: &str = "brightness";
/// The version of the model.
pub const VERSION: &str = "7";
/// Items in a run.
pub const BATCH: usize = 1;

/// What the model takes.
#[derive(Clone, Copy, Debug)]
pub struct Feeds<'a> {
    /// uint8 [1, 8, 8, 3]: 8×8 pixels of red, green, blue, 0..255, row by row; any scaling is in the model.
    pub image: &'a [u8],
}

impl Feeds<'_> {
    /// The shape of `image`.
    pub const SHAPE_IMAGE: [usize; 4] = [1, 8, 8, 3];
    /// The numbers in `image`.
    pub const LEN_IMAGE: usize = 192;
}

/// What the model gives.
#[derive(Clone, Debug, PartialEq)]
pub struct Fetches {
    /// float32 [1, 2].
    pub light: Vec<f32>,
    /// float32 [1, 1].
    pub level: Vec<f32>,
    /// uint8 [1, 8, 8, 3].
    pub pixels: Vec<u8>,
}

/// A label and its probability.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Class {
    /// Of the label, in the model's order.
    pub index: usize,
    pub label: &'static str,
    pub probability: f64,
}

impl Fetches {
    /// The shape of `light`.
    pub const SHAPE_LIGHT: [usize; 2] = [1, 2];
    /// The numbers in `light`.
    pub const LEN_LIGHT: usize = 2;
    /// The shape of `level`.
    pub const SHAPE_LEVEL: [usize; 2] = [1, 1];
    /// The numbers in `level`.
    pub const LEN_LEVEL: usize = 1;
    /// The shape of `pixels`.
    pub const SHAPE_PIXELS: [usize; 4] = [1, 8, 8, 3];
    /// The numbers in `pixels`.
    pub const LEN_PIXELS: usize = 192;

    /// The labels of output `tone`, which is 1 row of 2 classes.
    pub const LABELS_TONE: [&'static str; 2] = [
        "light", "dark",
    ];

    /// The likeliest classes of output `tone`, the best first.
    pub fn rank_tone(&self) -> Vec<Class> {
        rank(&self.light[0..2], &Self::LABELS_TONE, 2, |value| value as f64)
    }
}

/// The model, opened. It is used by one thread at a time; several may be open.
pub struct Model(native::Handle);

impl Model {
    /// Open the model that this crate is linked with, or, without the features `link` and `static`, the `libmodel.so`
    /// that the system's loader finds. `threads` is how many it may use; 0 lets it choose.
    pub fn open(threads: u32) -> Result<Self, Error> {
        native::Handle::open(native::library()?, NAME, threads).map(Model)
    }

    /// Open the model in the libmodel.so at `path` (by dlopen; a path without a slash is looked for by the loader).
    pub fn load(path: impl AsRef<std::path::Path>, threads: u32) -> Result<Self, Error> {
        native::Handle::open(native::load(path.as_ref())?, NAME, threads).map(Model)
    }

    /// What the library says of itself, as JSON.
    pub fn describe(&self) -> &str {
        self.0.describe()
    }

    /// One inference. A feed of another length than [`Feeds`] states is an error.
    pub fn run(&mut self, feeds: &Feeds) -> Result<Fetches, Error> {
        let mut fetches = Fetches {
            light: vec![0.0f32; 2],
            level: vec![0.0f32; 1],
            pixels: vec![0u8; 192],
        };
        self.run_into(feeds, &mut fetches)?;
        Ok(fetches)
    }

    /// [`Model::run`] without allocating: `fetches` is one of an earlier run.
    pub fn run_into(&mut self, feeds: &Feeds, fetches: &mut Fetches) -> Result<(), Error> {
        let feeds = [
            native::feed(feeds.image),
        ];
        let mut fetches = [
            native::fetch(&mut fetches.light),
            native::fetch(&mut fetches.level),
            native::fetch(&mut fetches.pixels),
        ];
        self.0.run(&feeds, &mut fetches)
    }
}

/// Equal ones stay in the model's order, and NaN comes last.
fn rank<T: Copy>(values: &[T], labels: &[&'static str], top: usize, number: fn(T) -> f64) -> Vec<Class> {
    let class = |(index, (&value, &label))| Class { index, label, probability: number(value) };
    let mut classes: Vec<Class> = values.iter().zip(labels).enumerate().map(class).collect();
    let order = |p: f64| if p.is_nan() { f64::NEG_INFINITY } else { p };
    classes.sort_by(|a, b| order(b.probability).total_cmp(&order(a.probability)));
    classes.truncate(top);
    classes
}
