// Names below sbx.test are this machine, as a wildcard in DNS would say.
const dns = require('node:dns');

const { lookup } = dns;
dns.lookup = (name, options, callback) =>
  lookup(name === 'sbx.test' || name.endsWith('.sbx.test') ? '127.0.0.1' : name, options, callback);
