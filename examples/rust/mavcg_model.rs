//! A safe wrapper of a library that `mavcg build` made of a model, without crates and without bindgen.
//!
//! The declarations are those of the library's C header (mavcg_model_table). One library is linked into a program.

use std::ffi::{c_char, c_int, c_void, CStr};
use std::ptr;

#[repr(C)]
struct Tensor {
    name: *const c_char,
    kind: i32,
    rank: i32,
    dims: *const i64,
    bytes: usize,
}

#[repr(C)]
struct Options {
    threads: i32,
    flags: u32,
    reserved: [u64; 2],
}

type Create = unsafe extern "C" fn(*const Options, *mut *mut c_void) -> c_int;
type Destroy = unsafe extern "C" fn(*mut c_void);
type Run = unsafe extern "C" fn(*mut c_void, *const *const c_void, *const *mut c_void) -> c_int;
type RunSized = unsafe extern "C" fn(
    *mut c_void, *const *const c_void, *const usize, *const *mut c_void, *const usize,
) -> c_int;

#[repr(C)]
struct Table {
    api: u32,
    input_count: u32,
    output_count: u32,
    step_count: u32,
    name: *const c_char,
    inputs: *const Tensor,
    outputs: *const Tensor,
    steps: *const c_void,
    arena_bytes: u64,
    scratch_bytes: u64,
    constants_bytes: u64,
    create: Create,
    destroy: Destroy,
    run: Run,
    run_sized: RunSized,
    profile: *const c_void,
    cancel: *const c_void,
    threads: *const c_void,
    error_text: unsafe extern "C" fn(c_int) -> *const c_char,
}

extern "C" {
    fn mavcg_model_api() -> *const Table;
}

const API: u32 = 3; // MAVCG_MODEL_API; earlier tables are shorter, by what is not used here
const F32: i32 = 1; // MAVCG_F32

/// An input or output: its name and its shape.
#[derive(Debug, Clone, PartialEq)]
pub struct Shape {
    pub name: String,
    pub dims: Vec<i64>,
    kind: i32,
}

/// A context of the linked model, for models whose inputs and outputs are f32.
pub struct Model {
    table: &'static Table,
    context: *mut c_void,
}

// A context may move between threads; `run` takes &mut self, so that one thread uses it at a time.
unsafe impl Send for Model {}

impl Model {
    /// Create a context whose runs take this number of threads; 0: the library chooses.
    pub fn new(threads: i32) -> Result<Model, String> {
        let table = unsafe { &*mavcg_model_api() };
        if table.api == 0 || table.api > API {
            return Err(format!("the library has API {}, this wrapper {API}", table.api));
        }
        let mut model = Model { table, context: ptr::null_mut() };
        if let Some(other) = model.inputs().into_iter().chain(model.outputs()).find(|tensor| tensor.kind != F32) {
            return Err(format!("{} is not f32", other.name));
        }
        let options = Options { threads, flags: 0, reserved: [0; 2] };
        let status = unsafe { (table.create)(&options, &mut model.context) };
        model.check(status)?;
        Ok(model)
    }

    pub fn inputs(&self) -> Vec<Shape> {
        unsafe { shapes(self.table.inputs, self.table.input_count) }
    }

    pub fn outputs(&self) -> Vec<Shape> {
        unsafe { shapes(self.table.outputs, self.table.output_count) }
    }

    /// Compute the outputs. The library compares the sizes; borrows keep inputs and outputs in separate memory.
    pub fn run(&mut self, inputs: &[&[f32]], outputs: &mut [&mut [f32]]) -> Result<(), String> {
        let (takes, gives) = (self.table.input_count as usize, self.table.output_count as usize);
        if inputs.len() != takes || outputs.len() != gives {
            return Err(format!("the model takes {takes} inputs and gives {gives} outputs"));
        }
        let from: Vec<_> = inputs.iter().map(|values| values.as_ptr().cast::<c_void>()).collect();
        let from_bytes: Vec<_> = inputs.iter().map(|values| std::mem::size_of_val(*values)).collect();
        let to: Vec<_> = outputs.iter_mut().map(|values| values.as_mut_ptr().cast::<c_void>()).collect();
        let to_bytes: Vec<_> = outputs.iter().map(|values| std::mem::size_of_val(&**values)).collect();
        let status = unsafe {
            (self.table.run_sized)(self.context, from.as_ptr(), from_bytes.as_ptr(), to.as_ptr(), to_bytes.as_ptr())
        };
        self.check(status)
    }

    fn check(&self, status: c_int) -> Result<(), String> {
        if status == 0 {
            return Ok(());
        }
        Err(unsafe { CStr::from_ptr((self.table.error_text)(status)) }.to_string_lossy().into_owned())
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        unsafe { (self.table.destroy)(self.context) }
    }
}

unsafe fn shapes(tensors: *const Tensor, count: u32) -> Vec<Shape> {
    (0..count as usize)
        .map(|i| {
            let tensor = &*tensors.add(i);
            let dims = (0..tensor.rank as usize).map(|d| *tensor.dims.add(d)).collect();
            Shape { name: CStr::from_ptr(tensor.name).to_string_lossy().into_owned(), dims, kind: tensor.kind }
        })
        .collect()
}
