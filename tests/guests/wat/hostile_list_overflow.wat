;; Gives a list whose length, times the size of an item, plus its address, is more than 32 bits hold.
(func (export "clawhost:environment/environment@0.1.0#describe") (result i32)
  (i32.store (i32.const 1052) (i32.const 0xfffffff8))
  (i32.store (i32.const 1056) (i32.const 0xffffffff))
  (i32.const 1024))
