;; Gives an answer that lies at an odd address.
(func (export "clawhost:environment/environment@0.1.0#describe") (result i32) (i32.const 1025))
