// A cell or a head of a table, by a Vue template as NiceGUI's slots take it: `props.row` is the row, `props.col` the column.
//
// Given as the template of a slot, NiceGUI would make a new component of it at each change of the page, and the browser new
// elements: a link would lose the keyboard's focus every second, and a click that began on the old one would go nowhere.
// Here a template is one component for good.

const components = new Map();

function componentOf(template) {
  if (!components.has(template)) {
    components.set(template, Vue.markRaw({ props: { props: Object }, emits: ["act"], template }));
  }
  return components.get(template);
}

export default {
  props: { template: String, props: Object },
  render() {
    const act = (what) => this.$parent.$emit("act", what);
    return Vue.h(componentOf(this.template), { props: this.props, onAct: act });
  },
};
