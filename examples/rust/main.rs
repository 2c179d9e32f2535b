//! A model from Rust.
//!
//!     mavcg build net.onnx --board host -o libnet.so
//!     rustc --edition 2021 examples/rust/main.rs -o app -L . -l net -C link-arg=-Wl,-rpath,$PWD
//!     ./app
//!
//! It fills the inputs with small numbers, 0 to 6 less 3 in turn, and prints all outputs.

mod mavcg_model;
use mavcg_model::Model;

fn main() -> Result<(), String> {
    let mut model = Model::new(2)?;
    let sizes = |shapes: Vec<mavcg_model::Shape>| -> Vec<usize> {
        shapes.iter().map(|shape| shape.dims.iter().product::<i64>() as usize).collect()
    };
    let inputs: Vec<Vec<f32>> =
        sizes(model.inputs()).iter().map(|&size| (0..size).map(|i| (i % 7) as f32 - 3.0).collect()).collect();
    let mut outputs: Vec<Vec<f32>> = sizes(model.outputs()).iter().map(|&size| vec![0.0; size]).collect();
    let given: Vec<&[f32]> = inputs.iter().map(Vec::as_slice).collect();

    let mut too_small = vec![0.0; 1];
    eprintln!("a wrong size: {}", model.run(&given, &mut [&mut too_small]).unwrap_err());
    model.run(&given, &mut outputs.iter_mut().map(Vec::as_mut_slice).collect::<Vec<_>>())?;
    for values in &outputs {
        println!("{}", values.iter().map(|value| format!("{value:e}")).collect::<Vec<_>>().join(" "));
    }
    Ok(())
}
