module.exports = class {
  constructor(options) {
    this.options = options;
  }
  id() {
    return this.options.id;
  }
  async callApi(prompt) {
    return { output: prompt };
  }
};
