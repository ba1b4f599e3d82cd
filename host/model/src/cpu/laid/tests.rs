//! Each format keeps what it says, and its products have the bits of their definition.

use super::*;
use crate::host_weights::Stream;

fn random(count: usize, name: &str) -> Vec<f32> {
    let mut stream = Stream::of(3, name);
    (0..count).map(|_| (stream.uniform() * 2.0 - 1.0) as f32).collect()
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

/// Shapes with and without a rest, in outputs, blocks and groups.
const SHAPES: [[usize; 2]; 7] = [[1, 1], [16, 32], [17, 33], [5, 70], [40, 64], [100, 96], [33, 130]];

#[test]
fn rows_that_are_written_are_read_back_as_the_format_keeps_them() {
    for shape in SHAPES {
        let rows = random(shape[0] * shape[1], "rows");
        for dtype in Dtype::ALL {
            let laid = Laid::of(dtype, shape, &rows).unwrap();
            let expect: Vec<f32> = match dtype {
                Dtype::F32 => rows.clone(),
                Dtype::BF16 => rows.iter().map(|value| half::bf16::from_f32(*value).to_f32()).collect(),
                Dtype::F16 => rows.iter().map(|value| half::f16::from_f32(*value).to_f32()).collect(),
                Dtype::Int8 => {
                    let row = |row: &[f32]| -> Vec<f32> {
                        row.chunks(BLOCK)
                            .flat_map(|block| {
                                let (codes, scale) = block_of(block).unwrap();
                                codes.into_iter().take(block.len()).map(move |code| f32::from(code) * F16::wide(scale))
                            })
                            .collect()
                    };
                    rows.chunks(shape[1]).flat_map(row).collect()
                }
            };
            assert_eq!(bits(&laid.rows()), bits(&expect), "{dtype:?} {shape:?}");
            assert_eq!(laid.dtype(), dtype);
            // In two pieces.
            let mut pieces = Laid::zeros(dtype, shape);
            let cut = (16 * shape[1]).min(rows.len());
            pieces.put(0, &rows[..cut]).unwrap();
            pieces.put(16, &rows[cut..]).unwrap();
            assert!(pieces == laid, "{dtype:?} {shape:?}");
        }
    }
}

#[test]
fn halves_that_are_stored_as_they_are_kept_are_copied_and_the_largest_is_found() {
    for shape in SHAPES {
        let rows = random(shape[0] * shape[1], "rows");
        for dtype in [Dtype::BF16, Dtype::F16] {
            let bits_of = |value: f32| match dtype {
                Dtype::BF16 => half::bf16::from_f32(value).to_bits(),
                _ => half::f16::from_f32(value).to_bits(),
            };
            let mut stored: Vec<[u8; 2]> = rows.iter().map(|value| bits_of(*value).to_le_bytes()).collect();
            let (laid, mut copied) = (Laid::of(dtype, shape, &rows).unwrap(), Laid::zeros(dtype, shape));
            let cut = (16 * shape[1]).min(stored.len());
            let largest = copied.put_halves(0, &stored[..cut]).max(copied.put_halves(16, &stored[cut..]));
            assert!(copied == laid, "{dtype:?} {shape:?}");
            let right = laid.rows().iter().fold(0.0f32, |most, value| most.max(value.abs()));
            assert_eq!(largest, right, "{dtype:?} {shape:?}");
            for wrong in [f32::INFINITY, f32::NEG_INFINITY, f32::NAN] {
                *stored.last_mut().unwrap() = bits_of(wrong).to_le_bytes();
                let largest = Laid::zeros(dtype, shape).put_halves(0, &stored);
                assert!(!largest.is_finite(), "{dtype:?} {shape:?} {wrong}: {largest}");
            }
        }
    }
}

#[test]
fn a_product_of_halves_has_the_bits_of_the_same_numbers_in_f32() {
    for shape in SHAPES {
        for dtype in [Dtype::BF16, Dtype::F16] {
            let laid = Laid::of(dtype, shape, &random(shape[0] * shape[1], "weights")).unwrap();
            let plain = Laid::of(Dtype::F32, shape, &laid.rows()).unwrap();
            for rows in [1, 2, 5, 6, 7, 13] {
                let x = random(rows * shape[1], "x");
                let (mut found, mut right) = (vec![0.0; rows * shape[0]], vec![0.0; rows * shape[0]]);
                laid.multiply(&x, &mut found, false);
                plain.multiply(&x, &mut right, false);
                assert_eq!(bits(&found), bits(&right), "{dtype:?} {shape:?} {rows}");
            }
        }
    }
}

#[test]
fn a_product_of_int8_sums_whole_numbers_block_by_block() {
    for shape in SHAPES {
        let [outputs, inputs] = shape;
        let weights = random(outputs * inputs, "weights");
        let laid = Laid::of(Dtype::Int8, shape, &weights).unwrap();
        let exact = laid.rows();
        for rows in [1, 2, 3, 4, 5, 8, 11, 17] {
            let x = random(rows * inputs, "x");
            let mut found = vec![0.0; rows * outputs];
            laid.multiply(&x, &mut found, false);
            // As the definition says, one number after the other.
            let rounded = Inputs::of(&x, inputs);
            for row in 0..rows {
                for output in 0..outputs {
                    let mut sum = 0.0f32;
                    for (block, weights) in weights[output * inputs..(output + 1) * inputs].chunks(BLOCK).enumerate() {
                        let (codes, scale) = block_of(weights).unwrap();
                        let at = row * rounded.blocks + block;
                        let x: Vec<i8> =
                            rounded.codes[at].iter().flat_map(|four| four.to_le_bytes().map(u8::cast_signed)).collect();
                        let whole: i32 = codes.iter().zip(&x).map(|(code, x)| i32::from(*code) * i32::from(*x)).sum();
                        sum = (whole as f32).mul_add(F16::wide(scale) * rounded.scales[at], sum);
                    }
                    assert_eq!(found[row * outputs + output].to_bits(), sum.to_bits(), "{shape:?} {rows}");
                    let plain: f64 = (0..inputs)
                        .map(|i| f64::from(exact[output * inputs + i]) * f64::from(x[row * inputs + i]))
                        .sum();
                    assert!((plain - f64::from(sum)).abs() < 0.004 * inputs as f64, "{plain} {sum}");
                }
            }
        }
    }
}

#[test]
fn both_kernels_of_int8_give_equal_bits() {
    for shape in SHAPES {
        let laid = Laid::of(Dtype::Int8, shape, &random(shape[0] * shape[1], "weights")).unwrap();
        let Values::Int8(panels, _) = &laid.values else { panic!("kept as int8") };
        for rows in [1, 2, 3, 9] {
            let inputs = Inputs::of(&random(rows * shape[1], "x"), shape[1]);
            let product = |out| Int8Product {
                inputs: &inputs,
                codes: &panels.codes,
                scales: &panels.scales,
                outputs: shape[0],
                out,
            };
            let mut plain = vec![0.0; rows * shape[0]];
            pulp::Arch::new().dispatch(product(&mut plain));
            #[cfg(target_arch = "x86_64")]
            {
                let mut fast = vec![0.0; rows * shape[0]];
                if crate::cpu::int8_x86::compute(product(&mut fast)).is_ok() {
                    assert_eq!(bits(&fast), bits(&plain), "{shape:?} {rows}");
                }
            }
        }
    }
}

#[test]
fn threads_and_other_rows_change_no_bit() {
    let shape = [2048, 512];
    for dtype in Dtype::ALL {
        let laid = Laid::of(dtype, shape, &random(shape[0] * shape[1], "weights")).unwrap();
        let x = random(9 * shape[1], "x");
        let mut all = vec![0.0; 9 * shape[0]];
        let pool = rayon::ThreadPoolBuilder::new().num_threads(3).build().unwrap();
        pool.install(|| laid.multiply(&x, &mut all, true));
        for row in 0..9 {
            let mut alone = vec![0.0; shape[0]];
            laid.multiply(&x[row * shape[1]..(row + 1) * shape[1]], &mut alone, false);
            assert_eq!(bits(&alone), bits(&all[row * shape[0]..(row + 1) * shape[0]]), "{dtype:?} {row}");
        }
    }
}

#[test]
fn values_that_a_format_cannot_hold_are_refused() {
    for (dtype, value) in [(Dtype::F16, 1e6), (Dtype::Int8, 1e9)] {
        assert_eq!(Laid::of(dtype, [1, 1], &[value]), Err(Unkept(value)), "{dtype:?}");
    }
}

#[test]
fn int8_beside_exact_inputs_computes_the_bits_of_its_numbers_in_f32() {
    for shape in SHAPES {
        let rounded = Laid::of(Dtype::Int8, shape, &random(shape[0] * shape[1], "weights")).unwrap();
        let exact = rounded.with_exact_inputs().unwrap();
        assert!(exact.with_exact_inputs().is_none());
        let plain = Laid::of(Dtype::F32, shape, &rounded.rows()).unwrap();
        assert_eq!(exact.digest(), plain.digest(), "the numbers are digested");
        assert_ne!(exact.digest(), rounded.digest());
        for rows in [1, 2, 6, 13, 100] {
            let x = random(rows * shape[1], "x");
            let (mut found, mut right) = (vec![0.0; rows * shape[0]], vec![0.0; rows * shape[0]]);
            exact.multiply(&x, &mut found, false);
            plain.multiply(&x, &mut right, false);
            assert_eq!(bits(&found), bits(&right), "{shape:?} {rows}");
        }
    }
}

#[test]
fn a_back_product_has_the_bits_of_the_same_numbers_laid_out_for_it() {
    for shape in SHAPES.into_iter().chain([[600, 40]]) {
        let [outputs, inputs] = shape;
        for dtype in Dtype::ALL {
            let laid = Laid::of(dtype, shape, &random(outputs * inputs, "weights")).unwrap();
            let columns = Panels::of_columns(&laid.rows(), shape);
            for rows in [1, 2, 5, 6, 7, 13] {
                let dy = random(rows * outputs, "dy");
                let (mut found, mut right) = (vec![0.0; rows * inputs], vec![0.0; rows * inputs]);
                laid.add_back(&dy, &mut found);
                columns.multiply(&dy, &mut right, false);
                assert_eq!(bits(&found), bits(&right), "{dtype:?} {shape:?} {rows}");
                // Some outputs after the others.
                let mut parts = vec![0.0; rows * inputs];
                for first in (0..outputs).step_by(32) {
                    laid.add_back_some(&dy[first..], outputs, (first, 32.min(outputs - first)), &mut parts);
                }
                assert_eq!(bits(&parts), bits(&right), "{dtype:?} {shape:?} {rows}");
            }
        }
    }
}

#[test]
fn products_with_some_outputs_are_those_of_the_whole_matrix() {
    let shape = [100, 96];
    for dtype in Dtype::ALL {
        let laid = Laid::of(dtype, shape, &random(shape[0] * shape[1], "weights")).unwrap();
        let x = random(7 * shape[1], "x");
        let mut all = vec![0.0; 7 * shape[0]];
        laid.multiply(&x, &mut all, false);
        for (first, count) in [(0, 100), (32, 32), (96, 4)] {
            let mut some = vec![0.0; 7 * count];
            laid.multiply_some(&x, (first, count), &mut some);
            let right: Vec<f32> = all.chunks(100).flat_map(|row| &row[first..first + count]).copied().collect();
            assert_eq!(bits(&some), bits(&right), "{dtype:?} {first}");
        }
    }
}

#[test]
fn a_digest_follows_the_values() {
    let mut laid = Laid::zeros(Dtype::BF16, [17, 2]);
    let before = laid.digest();
    laid.put(16, &[1.0, 2.0]).unwrap();
    assert_ne!(laid.digest(), before);
    assert_eq!(laid.digest(), Laid::of(Dtype::BF16, [17, 2], &laid.rows()).unwrap().digest());
}
