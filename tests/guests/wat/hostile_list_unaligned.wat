;; Gives a list of features that lies at an odd address.
(func (export "clawhost:environment/environment@0.1.0#describe") (result i32)
  (i32.store (i32.const 1052) (i32.const 1281))
  (i32.store (i32.const 1056) (i32.const 1))
  (i32.const 1024))
